//! Pictures of the desktop.

use std::rc::Rc;

use crate::command::{exec_as, run};
use crate::hands::Hands;
use crate::pictures;
use crate::place::Place;

/// A frame of it takes a tenth of that on a machine with other things to do.
const PATIENCE_MS: u64 = 20_000;
/// As the shell says it.
const NOT_FOUND: i32 = 127;

/// Writes a picture to its output, as `$FORM` says.
const GRAB: &str = "command -v ffmpeg >/dev/null || exit 127; exec ffmpeg -nostdin -loglevel error \
    -f x11grab -i :99 -frames:v 1 $FORM -f image2pipe pipe:1";

/// The screen of the sandbox, if it has one.
#[derive(Debug, Clone)]
pub struct Display {
    hands: Rc<Hands>,
    user: String,
}

/// How a picture is written: as it is, and smaller where that is too large to be shown.
const FORMS: [&str; 2] = ["-c:v png", "-vf scale=1280:-2 -c:v mjpeg -q:v 5"];

impl Display {
    pub fn new(hands: Rc<Hands>, place: &Place) -> Self {
        Self {
            hands,
            user: place.user.clone(),
        }
    }

    /// What is on it now, in a form that can be shown.
    pub(crate) async fn grab(&self) -> Result<Vec<u8>, String> {
        for form in FORMS {
            let mut exec = exec_as(&self.user, ["sh", "-c", GRAB]);
            exec.env.push(("FORM".into(), form.into()));
            exec.timeout_ms = Some(PATIENCE_MS);
            let most = pictures::MOST_BYTES;
            let grabbed = run(&self.hands, exec, most).await;
            let grabbed = grabbed.map_err(|error| error.to_string())?;
            if grabbed.timed_out {
                return Err("the screen was not read in time".to_owned());
            }
            if grabbed.code == NOT_FOUND {
                return Err("this sandbox has no ffmpeg to read its screen with".to_owned());
            }
            if grabbed.code != 0 {
                let why = String::from_utf8_lossy(&grabbed.stderr);
                return Err(format!("there is no screen to be read: {}", why.trim()));
            }
            if !grabbed.cut {
                return Ok(grabbed.stdout);
            }
        }
        Err("what is on the screen is too large to be shown".to_owned())
    }
}
