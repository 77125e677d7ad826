//! The fake provider passes the contract, in memory and as a process of its own.

mod in_memory {
    use std::sync::Arc;

    use async_trait::async_trait;
    use nacre_provider::contract::Harness;
    use nacre_provider::fake::Fake;
    use nacre_provider::{Origin, Provider};

    struct InMemory(Fake);

    #[async_trait]
    impl Harness for InMemory {
        async fn provider(&self) -> Arc<dyn Provider> {
            Arc::new(self.0.clone())
        }

        async fn origin(&self) -> Origin {
            Origin::Bare
        }
    }

    nacre_provider::contract_suite!(InMemory(Fake::default()));
}
