//! The way out of a sandbox that runs: what else it may reach, and what it was refused.

use ::egress::passes;
use provider::{Blocked, Pass, ProviderError, Refusals, SandboxId};

use crate::egress::{LOG, PASSES};
use crate::error::Doing as _;
use crate::local::Local;
use crate::operation::Engine;
use crate::record::Record;

impl Local {
    pub(crate) async fn set_passes(
        &self,
        id: SandboxId,
        passes: &[Pass],
    ) -> Result<(), ProviderError> {
        let passes = passes.iter().map(|pass| passes::Pass {
            rule: pass.rule.clone(),
            until: pass.until,
        });
        let passes: Vec<passes::Pass> = passes.collect();
        self.blocking(move |engine| {
            must_be_proxied(engine, id)?;
            if passes.len() > passes::MOST {
                let most = passes::MOST;
                return Err(ProviderError::refused(format!(
                    "at most {most} hosts are let through"
                )));
            }
            passes::check(&passes).map_err(|error| ProviderError::refused(error.to_string()))?;
            let directory = engine.home.sandbox(id).join(PASSES);
            passes::write(directory.as_std_path(), &passes).doing("letting hosts through")
        })
        .await
    }

    pub(crate) async fn refused_since(
        &self,
        id: SandboxId,
        since: Option<&str>,
    ) -> Result<Refusals, ProviderError> {
        let since = since.map(str::to_owned);
        self.blocking(move |engine| {
            must_be_proxied(engine, id)?;
            let directory = engine.home.sandbox(id).join(LOG);
            let (records, mark) =
                ::egress::refused_since(directory.as_std_path(), since.as_deref())
                    .doing("reading the proxy's log")?;
            let blocked = records.into_iter().map(|record| Blocked {
                at: record.at,
                host: record.host,
                port: record.port,
                reason: record.reason.unwrap_or_default(),
            });
            Ok(Refusals {
                blocked: blocked.collect(),
                mark,
            })
        })
        .await
    }
}

fn must_be_proxied(engine: &Engine, id: SandboxId) -> Result<(), ProviderError> {
    match Record::load(&engine.home, id)?.egress {
        Some(_) => Ok(()),
        None => Err(ProviderError::refused(format!(
            "sandbox {id} has no proxy: it was made without `--net proxy`"
        ))),
    }
}
