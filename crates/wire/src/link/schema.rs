//! The shape of protocol 1, checked in for those who do not read Rust, and so that it cannot change
//! unnoticed.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::{
    ActionAnswer, ActionsCall, Call, CreatePr, CreatedPr, HubFrame, MAX_INLINE, MAX_LINK_FRAME,
    PROTOCOL, ReadUpload, RequestEnvVariables, RunnerFrame, SaveEnvFiles, SaveServiceCommands,
    SaveSnapshot, SavedSnapshot, UploadPiece, Verified, Verify,
};

const CHECKED_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/link-1.json");

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "this crate has no fs_err, and a failing test shows the path"
)]
fn the_shape_of_protocol_1_is_the_one_checked_in() {
    let now = format!("{:#}\n", shape());
    let kept = std::fs::read_to_string(CHECKED_IN).unwrap_or_default();
    if now == kept {
        return;
    }
    let new = format!("{CHECKED_IN}.new");
    std::fs::write(&new, now).unwrap();
    panic!(
        "the link's frames look different from {CHECKED_IN}.\n\
         The new shape is in {new}; compare the two.\n\
         - Something was only added (a type, a field with a default): move the new file over the\n\
         \x20 old one and say it in docs/link.md and CHANGELOG.md.\n\
         - Something was renamed, removed or means another thing: a runner in a sandbox cannot be\n\
         \x20 upgraded, so add instead; or raise PROTOCOL and check in link-2.json beside this one."
    );
}

fn shape() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let hub = generator.subschema_for::<HubFrame>();
    let runner = generator.subschema_for::<RunnerFrame>();
    let requests = json!({
        SaveSnapshot::KIND: [generator.subschema_for::<SaveSnapshot>(), generator.subschema_for::<SavedSnapshot>()],
        Verify::KIND: [generator.subschema_for::<Verify>(), generator.subschema_for::<Verified>()],
        RequestEnvVariables::KIND: [generator.subschema_for::<RequestEnvVariables>(), true],
        SaveServiceCommands::KIND: [generator.subschema_for::<SaveServiceCommands>(), true],
        SaveEnvFiles::KIND: [generator.subschema_for::<SaveEnvFiles>(), true],
        CreatePr::KIND: [generator.subschema_for::<CreatePr>(), generator.subschema_for::<CreatedPr>()],
        ReadUpload::KIND: [generator.subschema_for::<ReadUpload>(), generator.subschema_for::<UploadPiece>()],
        ActionsCall::KIND: [generator.subschema_for::<ActionsCall>(), generator.subschema_for::<ActionAnswer>()],
    });
    json!({
        "protocol": PROTOCOL,
        "max_frame_bytes": MAX_LINK_FRAME,
        "max_inline_characters": MAX_INLINE,
        "from_hub": hub,
        "from_runner": runner,
        "requests": requests,
        "$defs": generator.definitions(),
    })
}
