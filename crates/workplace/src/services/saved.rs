//! What is on disk about services. The user can write there too, so each entry is taken or left on
//! its own, and a file that makes no sense is as good as none.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Definition, MAX_SERVICES, check};
use crate::place::Place;
use crate::{ports, state};

const MAX_FILE: u64 = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Wanted {
    Running,
    Stopped,
}

#[derive(Debug, Default)]
pub(super) struct Saved {
    pub(super) services: Vec<(Definition, Wanted)>,
    pub(super) exposed_port: Option<u16>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    definition: Definition,
    wanted: Wanted,
}

impl Saved {
    pub(super) fn load(place: &Place) -> Self {
        let content = state::read(&place.state.join("services.json"), MAX_FILE);
        let Ok(Some(content)) = content else {
            return Self::default();
        };
        Self::parse(&content)
    }

    fn parse(content: &[u8]) -> Self {
        let Ok(value) = serde_json::from_slice::<Value>(content) else {
            return Self::default();
        };
        let entries = value["services"].as_array().map_or(&[][..], Vec::as_slice);
        let mut services: Vec<(Definition, Wanted)> = Vec::new();
        for entry in entries {
            let Ok(Entry { definition, wanted }) = serde_json::from_value(entry.clone()) else {
                continue;
            };
            let is_new = !services
                .iter()
                .any(|(known, _)| known.name == definition.name);
            if is_new && check(&definition).is_ok() && services.len() < MAX_SERVICES {
                services.push((definition, wanted));
            }
        }
        let exposed_port = value["exposed_port"]
            .as_u64()
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port != 0 && !ports::is_ours(*port));
        Self {
            services,
            exposed_port,
        }
    }

    pub(super) fn store(&self, place: &Place) -> io::Result<()> {
        let entries: Vec<Entry> = self
            .services
            .iter()
            .map(|(definition, wanted)| Entry {
                definition: definition.clone(),
                wanted: *wanted,
            })
            .collect();
        let value = serde_json::json!({
            "version": 1,
            "services": entries,
            "exposed_port": self.exposed_port,
        });
        let content = serde_json::to_vec_pretty(&value)?;
        state::replace(&place.state.join("services.json"), &content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_a_spoiled_file_what_makes_sense_is_kept() {
        let saved = Saved::parse(
            br#"{"exposed_port": 4000, "services": [
                {"name": "web", "command": "true", "wanted": "running"},
                {"name": "../../etc/passwd", "command": "true", "wanted": "running"},
                {"name": "web", "command": "again", "wanted": "running"},
                {"name": "empty", "command": " ", "wanted": "running"},
                {"name": "odd", "command": 7, "wanted": "running"}, null, 3]}"#,
        );
        let names: Vec<_> = saved
            .services
            .iter()
            .map(|(s, _)| s.name.as_str())
            .collect();
        assert_eq!(names, ["web"]);
        assert_eq!(saved.services[0].0.command, "true");
        assert_eq!(saved.exposed_port, None, "one of ours");
    }

    proptest! {
        #[test]
        fn no_file_makes_it_fail(content: Vec<u8>) {
            Saved::parse(&content);
        }
    }
}
