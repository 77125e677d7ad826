//! What sessions' sandboxes find outside, on this machine.

use std::sync::Arc;

use async_trait::async_trait;
use provider::Stream;
use server::{Address, Offer};
use sessions::{Outside, Visitor};
use wire::link::Boot;

use super::offer::Local;

#[derive(Debug)]
pub(super) struct Doors {
    offer: Arc<Local>,
    origin: String,
}

impl Doors {
    pub(super) fn new(offer: Arc<Local>, address: &Address) -> Self {
        Self {
            offer,
            origin: address.origin(),
        }
    }
}

#[async_trait]
impl Outside for Doors {
    fn doors(&self) -> &'static [&'static str] {
        &["model", "git"]
    }

    async fn visit(&self, _door: &'static str, _visitor: Visitor, _stream: Box<dyn Stream>) {}

    fn dress(&self, _visitor: &Visitor, mut boot: Boot) -> Boot {
        boot.agent.providers = self.offer.model_providers();
        boot.origins = vec![self.origin.clone()];
        boot
    }
}
