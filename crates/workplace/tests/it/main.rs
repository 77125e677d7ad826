//! What the workplace does with others around it.

mod link;
