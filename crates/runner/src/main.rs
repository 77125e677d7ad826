//! PID 1 alone, without the workplace that it could start: for tests.

fn main() -> std::process::ExitCode {
    runner::main()
}
