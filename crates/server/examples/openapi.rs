//! Prints the description of `/v1`.

#![expect(clippy::print_stdout, reason = "that is what it is for")]

fn main() {
    print!("{}", nacre_server::openapi());
}
