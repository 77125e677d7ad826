//! A home that goes away with its test, sandboxes and all.

use camino::Utf8PathBuf;
use nacre_provider_local::{Config, Local};
use provider::{Provider as _, SandboxId};
use rustix::process::Pid;

#[derive(Debug)]
pub(crate) struct TestHome {
    pub(crate) path: Utf8PathBuf,
}

impl TestHome {
    pub(crate) fn new(name: &str) -> Self {
        assert!(
            rustix::process::geteuid().is_root(),
            "the local engine's tests run sandboxes and need root"
        );
        let path = Utf8PathBuf::try_from(std::env::temp_dir())
            .expect("a readable name")
            .join(format!("nacre-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self { path }
    }

    pub(crate) fn open(&self) -> Local {
        Local::open(&Config::at(self.path.clone())).expect("the home opens")
    }

    pub(crate) fn keeper(&self, id: SandboxId) -> Pid {
        let path = self.path.join(format!("sandboxes/{id}/keeper.json"));
        let text = fs_err::read_to_string(path).expect("it has a keeper");
        let running: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let keeper = running["keeper"].as_i64().expect("a number");
        Pid::from_raw(i32::try_from(keeper).expect("a process id")).expect("a process id")
    }

    pub(crate) async fn clear(&self) {
        let local = self.open();
        for sandbox in local.list(&[]).await.expect("the sandboxes can be listed") {
            local
                .remove(sandbox.id)
                .await
                .expect("a sandbox can be removed");
        }
        std::fs::remove_dir_all(&self.path).expect("the home can be removed");
    }
}

/// After a test that failed: nothing that it started goes on.
impl Drop for TestHome {
    fn drop(&mut self) {
        if !self.path.exists() {
            return;
        }
        // A runtime that is unwinding runs nothing more.
        let clearing = std::thread::scope(|scope| {
            let clear = || {
                let runtime = tokio::runtime::Runtime::new().expect("a runtime");
                runtime.block_on(self.clear());
            };
            scope.spawn(clear).join()
        });
        assert!(
            clearing.is_ok() || std::thread::panicking(),
            "sandboxes stay behind in {}",
            self.path
        );
    }
}
