//! The hub's end of a link, for those who are no hub: it greets, answers and acknowledges, and keeps
//! nothing.

use provider::Stream;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf, split};
use wire::link::{
    FromHub, Hello, HubFrame, HubHello, MAX_LINK_FRAME, PROTOCOL, RunnerFrame, Seen, write,
};

/// One connection that a workplace made at its link door.
pub(crate) struct Connection {
    says: BufReader<ReadHalf<Box<dyn Stream>>>,
    hears: WriteHalf<Box<dyn Stream>>,
    /// The line that is being read.
    line: Vec<u8>,
    term: u64,
}

impl Connection {
    /// Of the owner after the one of this term; a workplace's first has none before it.
    pub(crate) fn after(term: u64, stream: Box<dyn Stream>) -> Self {
        let (reader, writer) = split(stream);
        Self {
            says: BufReader::new(reader),
            hears: writer,
            line: Vec::new(),
            term: term + 1,
        }
    }

    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    /// The next line. `None` at the end, and for a line that is too long. Waiting for it may be
    /// given up and begun again.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let piece = self.says.fill_buf().await.ok()?;
            if piece.is_empty() || self.line.len() + piece.len() > 2 * MAX_LINK_FRAME {
                return None;
            }
            let end = piece.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(piece.len(), |end| end + 1);
            self.line
                .extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
            self.says.consume(used);
            if end.is_some() {
                return Some(std::mem::take(&mut self.line));
            }
        }
    }

    /// Answers a hello: whoever speaks from here on is heard.
    pub(crate) async fn greet(&mut self, hello: &Hello, seen: Vec<Seen>) {
        self.term = self.term.max(hello.term + 1);
        self.say(FromHub::Hello(HubHello {
            session: hello.session.clone(),
            generation: hello.generation,
            boot: hello.boot.clone(),
            protocol: hello.protocol.min(PROTOCOL),
            seen,
        }))
        .await;
    }

    pub(crate) async fn acknowledge(&mut self, frame: &RunnerFrame) {
        if let Some(seq) = frame.seq {
            let boot = frame.from_boot.clone();
            self.say(FromHub::Ack { seq, boot }).await;
        }
    }

    pub(crate) async fn say(&mut self, body: FromHub) {
        let mut line = write(&HubFrame::new(self.term, body));
        line.push(b'\n');
        // A workplace that is gone knocks again.
        let _ = self.hears.write_all(&line).await;
    }
}
