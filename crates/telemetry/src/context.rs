use std::fmt;
use std::sync::Arc;

use model::{Clock, Id, Kind};

use crate::Trace;

/// What a client may call a request of its own.
const LONGEST: usize = 100;

tokio::task_local! {
    static NOW: Context;
}

/// For whom something is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    pub request: Option<RequestId>,
    /// The step that what is done now belongs to.
    pub trace: Option<Trace>,
}

/// What a request is called: in the answer, in problems, in log lines, in the audit.
#[derive(Clone, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

/// Of what is done in this task now; empty where nobody asked.
pub fn current() -> Context {
    NOW.try_with(Context::clone).unwrap_or_default()
}

/// Does it for whoever asked.
pub async fn within<F: Future>(context: Context, work: F) -> F::Output {
    NOW.scope(context, work).await
}

enum Request {}

impl Kind for Request {
    const PREFIX: &'static str = "req";
}

impl RequestId {
    pub fn new(clock: &dyn Clock) -> Self {
        Self(Id::<Request>::new(clock).to_string().into())
    }

    /// A client's own, if it is short and plain: it goes into log lines and headers.
    pub fn read(text: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(&byte);
        let is_good = (1..=LONGEST).contains(&text.len()) && text.bytes().all(is_plain);
        is_good.then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_own_id_is_taken_when_it_is_short_and_plain() {
        for good in ["a", "0af76519-16cd", "trace=1:2/3", &"a".repeat(LONGEST)] {
            assert_eq!(RequestId::read(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a\nb", "ä", "<b>", &"a".repeat(LONGEST + 1)] {
            assert_eq!(RequestId::read(bad), None, "{bad}");
        }
    }

    #[tokio::test]
    async fn what_is_done_for_somebody_knows_for_whom() {
        let context = Context {
            request: RequestId::read("mine"),
            trace: None,
        };
        let inside = within(context.clone(), async { current() }).await;
        assert_eq!(inside, context);
        assert_eq!(current(), Context::default());
    }
}
