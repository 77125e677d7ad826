//! Frames, and what becomes of them. `web/client` reads the same files.

use nacre_client::{Frame, Transcript};
use serde_json::Value;

const FILES: &[(&str, &str)] = &[
    ("parts", include_str!("../vectors/parts.json")),
    ("messages", include_str!("../vectors/messages.json")),
    ("session", include_str!("../vectors/session.json")),
];

#[test]
fn what_becomes_of_frames_is_written_down() {
    for (file, text) in FILES {
        let vectors: Value = serde_json::from_str(text).unwrap();
        for case in vectors["cases"].as_array().unwrap() {
            let mut transcript = Transcript::default();
            for frame in case["frames"].as_array().unwrap() {
                let text = frame.to_string();
                if let Some(frame) = Frame::read(&text) {
                    transcript.apply(&frame);
                }
            }
            let mut told = serde_json::to_value(&transcript).unwrap();
            told["usage"] = serde_json::to_value(transcript.usage()).unwrap();
            let name = &case["name"];
            assert_eq!(told, case["transcript"], "{file}: {name}\n{told:#}");
        }
    }
}
