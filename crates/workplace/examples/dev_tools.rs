//! The dev tools and nothing else, started by PID 1 in the place of the workplace: for measuring.

use std::convert::Infallible;
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::sync::Arc;

use model::{Clock, SystemClock};
use tokio::net::TcpListener;
use tokio::task::LocalSet;
use wire::workplace::DEVTOOLS_PORT;
use workplace::devtools::{self, Others, Token, Tools};
use workplace::hands::Hands;
use workplace::inside;
use workplace::place::Place;

const USER: u32 = 1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runner = std::io::stdin().as_fd().try_clone_to_owned()?;
    let (hands, order) = Hands::take(runner)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let served = LocalSet::new().block_on(&runtime, async {
        let others = Others {
            preview: Rc::new(()),
            tunnels: Rc::new(()),
            hub: Rc::new(()),
            git: Vec::new(),
        };
        let tools = Tools::new(&Rc::new(hands), &Place::standard(), &clock, others);
        tools.services.resume();
        let listener = TcpListener::bind(("127.0.0.1", DEVTOOLS_PORT)).await?;
        let token = order.secret.and_then(Token::new);
        let outside = devtools::serve(listener, Rc::clone(&tools), token);
        let socket = inside::bind(inside::PATH.into())?;
        let inside = inside::serve(socket, Rc::clone(&tools), USER);
        let ports = tools.ports.clone();
        let served: Infallible = tokio::select! {
            served = outside => served,
            served = inside => served,
            () = ports.watch() => unreachable!("it goes on"),
        };
        Ok::<Infallible, std::io::Error>(served)
    });
    match served? {}
}
