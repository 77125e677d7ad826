//! Host to keeper.
