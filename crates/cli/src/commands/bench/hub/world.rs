use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::Utf8Path;
use model::{Clock as _, Id, Organisation, Session, SystemClock};
use provider::Provider;
use provider::fake::Fake;
use sessions::{Makings, New, Sessions, Settings, Spec};
use store::sessions::{Channel, Type};
use store::{Config, Store};

use super::{Figure, percentile, sorted};
use crate::error::CommandError;

/// Sessions on a database of their own.
pub(in super::super) struct World {
    pub(in super::super) store: Store,
    pub(in super::super) sessions: Sessions,
    provider: String,
    organisation: Id<Organisation>,
}

impl World {
    /// On a provider in this process.
    pub(super) async fn open(database: &Utf8Path) -> Result<Self, CommandError> {
        Self::over(database, Arc::new(Fake::default())).await
    }

    pub(in super::super) async fn over(
        database: &Utf8Path,
        provider: Arc<dyn Provider>,
    ) -> Result<Self, CommandError> {
        let location = format!("sqlite:{database}").parse();
        let config = Config::new(location.map_err(anyhow::Error::from)?);
        let store = Store::open(&config).await.map_err(anyhow::Error::from)?;
        let organisation = Id::new(&SystemClock);
        let mut tx = store.begin().await.map_err(anyhow::Error::from)?;
        tx.create_organisation(organisation, "a bench", SystemClock.now())
            .await
            .map_err(anyhow::Error::from)?;
        tx.commit().await.map_err(anyhow::Error::from)?;
        let name = provider.name().to_owned();
        let sessions = Sessions::new(Makings {
            store: store.clone(),
            providers: vec![provider],
            clock: Arc::new(SystemClock),
            owner: "a bench".to_owned(),
            outside: Arc::new(sessions::Nothing),
            // Nobody renews them here.
            settings: Settings {
                lease: Duration::from_hours(1),
                ..Settings::usual()
            },
        });
        Ok(Self {
            store,
            sessions,
            provider: name,
            organisation,
        })
    }

    pub(in super::super) async fn create(&self, spec: Spec) -> Result<Id<Session>, CommandError> {
        let new = New {
            organisation: self.organisation,
            created_by: None,
            title: "a session".to_owned(),
            r#type: Type::Coding,
            channel: Channel::Api,
            provider: self.provider.clone(),
            spec,
        };
        Ok(self
            .sessions
            .create(new)
            .await
            .map_err(anyhow::Error::from)?)
    }

    /// How long a record takes.
    pub(super) async fn records(&self, count: usize) -> Result<Figure, CommandError> {
        let mut times = Vec::new();
        for _ in 0..count {
            let begun = Instant::now();
            self.create(Spec::default()).await?;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        let times = sorted(times);
        Ok(Figure {
            name: "record_created",
            value: percentile(&times, 50),
            unit: "ms p50",
            goal: Some(3.0),
            detail: format!("{count} times, p99 {:.2} ms", percentile(&times, 99)),
        })
    }

    pub(super) async fn close(self) -> Result<(), CommandError> {
        self.sessions.shut_down().await;
        self.store.close().await.map_err(anyhow::Error::from)?;
        Ok(())
    }
}
