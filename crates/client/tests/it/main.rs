mod fold;
mod follow;
mod http;
mod server;
mod vectors;
mod world;
