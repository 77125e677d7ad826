//! What of an API goes through.

use hyper::Method;

use super::config::Api;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Messages,
    CountTokens,
    ChatCompletions,
    Responses,
    Embeddings,
    Transcriptions,
    Models,
}

use Endpoint::{
    ChatCompletions, CountTokens, Embeddings, Messages, Models, Responses, Transcriptions,
};

impl Endpoint {
    /// By what follows `/v1/`, exactly: nothing is decoded, so nothing can be hidden.
    pub(super) fn find(api: Api, path: &str) -> Option<Self> {
        let all: &[Self] = match api {
            Api::Anthropic => &[Messages, CountTokens, Models],
            Api::OpenAi => &[
                ChatCompletions,
                Responses,
                Embeddings,
                Transcriptions,
                Models,
            ],
        };
        all.iter().copied().find(|one| one.path() == path)
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            Messages => "messages",
            CountTokens => "messages/count_tokens",
            ChatCompletions => "chat/completions",
            Responses => "responses",
            Embeddings => "embeddings",
            Transcriptions => "audio/transcriptions",
            Models => "models",
        }
    }

    /// Whether it uses no tokens, whatever it is asked.
    pub(super) fn is_free(self) -> bool {
        matches!(self, CountTokens | Models)
    }

    pub(super) fn method(self) -> Method {
        match self {
            Models => Method::GET,
            _ => Method::POST,
        }
    }
}

/// `/anthropic/v1/messages` is `anthropic` and `messages`.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    let (provider, rest) = path.strip_prefix('/')?.split_once('/')?;
    Some((provider, rest.strip_prefix("v1/")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_api_has_its_own_list() {
        assert_eq!(
            Endpoint::find(Api::Anthropic, "messages"),
            Some(Endpoint::Messages)
        );
        assert_eq!(Endpoint::find(Api::OpenAi, "messages"), None);
        assert_eq!(
            Endpoint::find(Api::OpenAi, "responses"),
            Some(Endpoint::Responses)
        );
    }

    #[test]
    fn nothing_but_the_exact_words_goes_through() {
        for path in [
            "",
            "messages/",
            "messages/batches",
            "Messages",
            "messages%2fbatches",
            "../v1/messages",
            "files",
            "models/x",
            "organizations/api_keys",
        ] {
            assert_eq!(Endpoint::find(Api::Anthropic, path), None, "{path}");
        }
    }

    #[test]
    fn a_path_names_a_provider_first() {
        assert_eq!(
            split("/openai/v1/audio/transcriptions"),
            Some(("openai", "audio/transcriptions"))
        );
        for path in [
            "/v1/messages",
            "/openai/v2/models",
            "/openai",
            "openai/v1/x",
            "/",
        ] {
            assert!(
                split(path).is_none_or(|(_, rest)| rest.is_empty()),
                "{path}"
            );
        }
    }
}
