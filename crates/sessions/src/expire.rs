use jobs::{Context, Job, JobError};
use model::{Id, Session};
use serde::{Deserialize, Serialize};

use crate::{HubError, Sessions};

/// The provider will end a session's sandbox soon. Its hub knows by itself; this is for a session
/// whose hub is in no process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Expire {
    pub session: Id<Session>,
}

impl Job<Sessions> for Expire {
    const KIND: &'static str = "expire";

    fn key(&self) -> String {
        self.session.to_string()
    }

    async fn run(self, context: &Context<Sessions>) -> Result<(), JobError> {
        match context.app.open(self.session).await {
            // Whoever has it acts.
            Ok(_) | Err(HubError::Store(store::Error::Held { .. } | store::Error::NotFound(_))) => {
                Ok(())
            }
            Err(error) => Err(JobError::retry(error)),
        }
    }
}
