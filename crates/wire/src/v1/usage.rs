use serde::{Deserialize, Serialize};

/// What requests to models took, as the model door counted it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Usage {
    pub requests: u64,
    /// Each token counts once: what came from a cache is no input, what was thought is no output.
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub reasoning_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    /// In micro-dollars, of what has a price that is known; absent where nothing has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Requests whose cost nobody knows; it is not in the sum.
    pub unpriced_requests: u64,
    /// Requests whose answers were cut or did not say what they took: counted as far as is known.
    pub incomplete_requests: u64,
}

/// Of a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionUsage {
    #[serde(flatten)]
    pub total: Usage,
    /// What of it belongs to no prompt that is known.
    pub unattributed: Usage,
}

/// Of a prompt, with all that was asked for it: also titles, and attempts that failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PromptUsage {
    #[serde(flatten)]
    pub total: Usage,
    /// What of it subagents took.
    pub subagents: Usage,
}
