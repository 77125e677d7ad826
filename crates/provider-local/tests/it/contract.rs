//! The contract suite on the local provider: a new instance on one home for every call.

use std::sync::Arc;

use async_trait::async_trait;
use provider::contract::{Harness, plant};
use provider::{Origin, Provider};

use crate::home::TestHome;

struct OnThisMachine {
    home: TestHome,
    origin: Origin,
}

impl OnThisMachine {
    async fn new() -> Self {
        let home = TestHome::new("contract");
        let probe = testkit::probe_path().expect("the probe is built");
        let planted = plant(&home.open(), Origin::Bare, &probe)
            .await
            .expect("the probe can be planted");
        Self {
            home,
            origin: Origin::Snapshot(planted),
        }
    }
}

#[async_trait]
impl Harness for OnThisMachine {
    async fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.home.open())
    }

    async fn origin(&self) -> Origin {
        self.origin.clone()
    }

    async fn finish(&self) {
        self.home.clear().await;
    }
}

provider::contract_suite!(OnThisMachine::new().await);
