//! `nacre bench`: how long sandboxes take, beside their peers.
