//! What the host serves into sandboxes: models and git, with keys that stay outside.

#![forbid(unsafe_code)]
