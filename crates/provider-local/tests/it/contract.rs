//! The contract suite on the local provider, once for each runtime: a new instance on one home for
//! every call.

use std::sync::Arc;

use async_trait::async_trait;
use provider::contract::{Disk, Harness, plant};
use provider::{Origin, Provider, Runtime};

use crate::home::TestHome;

struct OnThisMachine {
    home: TestHome,
    origin: Origin,
    runtime: Runtime,
}

impl OnThisMachine {
    async fn new(runtime: Runtime) -> Self {
        let home = TestHome::new("contract");
        let probe = testkit::probe_path().expect("the probe is built");
        let planted = plant(&home.open(), Origin::Bare, &probe)
            .await
            .expect("the probe can be planted");
        Self {
            home,
            origin: Origin::Snapshot(planted),
            runtime,
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

    fn runtime(&self) -> Runtime {
        self.runtime
    }

    /// gVisor's own account of processor time is not the host's; `runsc` measures there.
    fn measures_cpu(&self) -> bool {
        self.runtime == Runtime::Native
    }

    /// gVisor has no attributes on a host's files, keeps named pipes in memory, and works the size on
    /// disk out from the length; `runsc` looks for holes on the host.
    fn disk(&self) -> Disk {
        let native = self.runtime == Runtime::Native;
        Disk {
            attributes: native,
            pipes: native,
            holes: native,
        }
    }

    async fn finish(&self) {
        self.home.clear().await;
    }
}

provider::contract_suite!(OnThisMachine::new(Runtime::Native).await);

/// Sandboxes with a kernel of their own.
mod runsc {
    use super::*;

    provider::contract_suite!(OnThisMachine::new(Runtime::Runsc).await);
}
