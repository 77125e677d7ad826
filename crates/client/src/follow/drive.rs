use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use reqwest::Url;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use wire::v1::FromClient;

use super::dial::{Socket, dial};
use super::line::{Line, Next};
use super::outbox::Outbox;
use super::pace::{Pulse, Silence, Tries};
use super::{FollowOptions, Pace, Update};
use crate::call::shown;
use crate::{Client, ClientError, Frame};

/// A server that does not take a command within this is not there.
const WRITE: Duration = Duration::from_secs(10);
/// However long a server asks to be left alone.
const LONGEST_WAIT: Duration = Duration::from_mins(2);

/// What somebody wants of the line.
#[derive(Debug)]
pub(super) enum Order {
    Say {
        command: FromClient,
        reply: oneshot::Sender<Result<(), ClientError>>,
    },
    Reconnect,
}

/// Nobody reads any more.
struct Unread;

/// The task behind a follow. It alone holds the socket.
pub(super) struct Drive {
    client: Client,
    url: Url,
    wake: bool,
    pace: Pace,
    line: Line,
    outbox: Outbox,
    tries: Tries,
    updates: mpsc::Sender<Update>,
    orders: mpsc::Receiver<Order>,
}

impl Drive {
    pub(super) fn new(
        client: Client,
        url: Url,
        options: FollowOptions,
        updates: mpsc::Sender<Update>,
        orders: mpsc::Receiver<Order>,
    ) -> Self {
        Self {
            client,
            url,
            wake: options.wake,
            pace: options.pace,
            line: Line::after(options.since),
            outbox: Outbox::default(),
            tries: Tries::default(),
            updates,
            orders,
        }
    }

    pub(super) async fn run(mut self) {
        // Only a reader that is gone ends it otherwise.
        let _ = self.follow().await;
    }

    async fn follow(&mut self) -> Result<(), Unread> {
        loop {
            let why = match self.connect().await {
                Ok(socket) => self.talk(socket).await?,
                Err(error) if error.can_retry() => error,
                Err(error) => return self.tell(Update::Refused(error)).await,
            };
            let wait = self.tries.next(&self.pace, fastrand::f64());
            let asked = why.retry_after().unwrap_or_default();
            let again_in = wait.max(asked.min(LONGEST_WAIT));
            tracing::debug!(url = %shown(&self.url), %why, ?again_in, "the line is lost");
            self.tell(Update::Offline { why, again_in }).await?;
            self.wait(again_in).await;
        }
    }

    async fn connect(&mut self) -> Result<Socket, ClientError> {
        let mut url = self.url.clone();
        if let Some(since) = self.line.since() {
            url.query_pairs_mut()
                .append_pair("since", &since.to_string());
        }
        if !self.wake {
            url.query_pairs_mut().append_pair("resume", "false");
        }
        let client = self.client.clone();
        let dialling = dial(&client, url);
        tokio::pin!(dialling);
        loop {
            tokio::select! {
                dialled = &mut dialling => return dialled,
                Some(order) = self.orders.recv() => {
                    self.without_a_line(order);
                }
            }
        }
    }

    /// Until the line is lost.
    async fn talk(&mut self, mut socket: Socket) -> Result<ClientError, Unread> {
        let updates = self.updates.clone();
        let mut untold = Some(Update::Online);
        let mut pulse = Pulse::at(Instant::now());
        for command in self.outbox.waiting() {
            if let Err(error) = say(&mut socket, command, &self.url).await {
                return Ok(error);
            }
        }
        loop {
            tokio::select! {
                room = updates.reserve(), if untold.is_some() => {
                    if let Some(update) = untold.take() {
                        room.map_err(|_| Unread)?.send(update);
                    }
                    // Silence counts from when the line is read again.
                    pulse = Pulse::at(Instant::now());
                }
                message = socket.next(), if untold.is_none() => {
                    pulse = Pulse::at(Instant::now());
                    match self.hear(message) {
                        Ok(frame) => untold = frame.map(Update::Frame),
                        Err(error) => return Ok(error),
                    }
                }
                Some(order) = self.orders.recv() => {
                    if matches!(order, Order::Reconnect) {
                        pulse.nudge(Instant::now(), &self.pace);
                    }
                    if let Err(error) = self.obey(&mut socket, order).await {
                        // What was heard counts as given.
                        if let Some(update) = untold.take() {
                            self.tell(update).await?;
                        }
                        return Ok(error);
                    }
                }
                () = sleep_until(pulse.due(&self.pace)), if untold.is_none() => {
                    if pulse.is_due(&self.pace) == Silence::Dead {
                        return Ok(self.silent());
                    }
                    if let Err(error) = say(&mut socket, &FromClient::Ping, &self.url).await {
                        return Ok(error);
                    }
                }
            }
        }
    }

    /// What of it is for whoever reads.
    fn hear(
        &mut self,
        message: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
    ) -> Result<Option<Frame>, ClientError> {
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(_))) | None => return Err(self.lost("the server hung up")),
            Some(Ok(_)) => return Ok(None),
            Some(Err(error)) => return Err(self.lost(error)),
        };
        let Some(frame) = Frame::read(&text) else {
            return Err(self.lost("the server said something that is no frame"));
        };
        match self.line.hear(&frame) {
            Next::Give => {
                self.outbox.settle(&frame);
                if frame.seq.is_some() {
                    self.tries.came_to_something();
                }
                Ok(Some(frame))
            }
            Next::Leave => {
                // Said again, it may still be news of what we said.
                self.outbox.settle(&frame);
                Ok(None)
            }
            Next::Gap => Err(self.lost("a frame is missing")),
        }
    }

    async fn obey(&mut self, socket: &mut Socket, order: Order) -> Result<(), ClientError> {
        let (command, reply) = match order {
            // A dead line shows soon.
            Order::Reconnect => return say(socket, &FromClient::Ping, &self.url).await,
            Order::Say { command, reply } => (command, reply),
        };
        let is_kept = match self.outbox.keep(&command) {
            Ok(is_kept) => is_kept,
            Err(error) => {
                let _ = reply.send(Err(error));
                return Ok(());
            }
        };
        let said = say(socket, &command, &self.url).await;
        let answer = match &said {
            Err(_) if !is_kept => Err(ClientError::NotConnected),
            _ => Ok(()),
        };
        let _ = reply.send(answer);
        said
    }

    /// Whether it is to be tried now.
    fn without_a_line(&mut self, order: Order) -> bool {
        let (command, reply) = match order {
            Order::Reconnect => return true,
            Order::Say { command, reply } => (command, reply),
        };
        let kept = match self.outbox.keep(&command) {
            Ok(true) => Ok(()),
            Ok(false) => Err(ClientError::NotConnected),
            Err(error) => Err(error),
        };
        let _ = reply.send(kept);
        false
    }

    async fn wait(&mut self, wait: Duration) {
        let until = Instant::now() + wait;
        loop {
            tokio::select! {
                () = sleep_until(until) => return,
                Some(order) = self.orders.recv() => {
                    if self.without_a_line(order) {
                        return;
                    }
                }
            }
        }
    }

    async fn tell(&mut self, update: Update) -> Result<(), Unread> {
        let updates = self.updates.clone();
        loop {
            tokio::select! {
                room = updates.reserve() => {
                    room.map_err(|_| Unread)?.send(update);
                    return Ok(());
                }
                Some(order) = self.orders.recv() => {
                    self.without_a_line(order);
                }
            }
        }
    }

    fn lost(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
        lost(&self.url, source)
    }

    fn silent(&self) -> ClientError {
        ClientError::Silent {
            url: shown(&self.url),
            waited: self.pace.dead_after,
        }
    }
}

async fn say(socket: &mut Socket, command: &FromClient, url: &Url) -> Result<(), ClientError> {
    let text = serde_json::to_string(command).map_err(|error| ClientError::Setup(error.into()))?;
    match timeout(WRITE, socket.send(Message::text(text))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(lost(url, error)),
        Err(_) => Err(ClientError::Silent {
            url: shown(url),
            waited: WRITE,
        }),
    }
}

fn lost(url: &Url, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ClientError {
    ClientError::Unreachable {
        url: shown(url),
        sent: true,
        source: source.into(),
    }
}
