//! Commands and files over a connection, the same from either end.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use wire::frame::{Channel, FrameError, MAX_DATA, read_frame, write_frame};
use wire::guest;

use super::protocol::{
    Ended, FileMessage, entry_from_wire, entry_to_wire, exit_from_wire, exit_to_wire, send,
    size_from_wire, size_to_wire,
};
use crate::{ExecInput, ExecOutput, FileEvent, FileStream, ProviderError};

pub(super) type Output = Result<ExecOutput, ProviderError>;
pub(super) type Event = Result<FileEvent, ProviderError>;

pub(super) async fn send_input(
    to: &mut (impl AsyncWrite + Unpin),
    mut inputs: mpsc::Receiver<ExecInput>,
) -> Result<(), FrameError> {
    while let Some(input) = inputs.recv().await {
        match input {
            ExecInput::Data(data) => send_data(to, Channel::Stdin, &data).await?,
            ExecInput::Eof => write_frame(to, Channel::Stdin, &[]).await?,
            ExecInput::Resize(size) => send(to, &guest::Input::Resize(size_to_wire(size))).await?,
            ExecInput::Signal(signal) => send(to, &guest::Input::Signal(signal)).await?,
        }
    }
    write_frame(to, Channel::Stdin, &[]).await
}

/// Until the other side closes.
pub(super) async fn receive_input(
    from: &mut (impl AsyncRead + Unpin),
    to: mpsc::Sender<ExecInput>,
) -> Result<(), FrameError> {
    while let Some(frame) = read_frame(from).await? {
        let input = match frame.channel {
            Channel::Stdin if frame.payload.is_empty() => ExecInput::Eof,
            Channel::Stdin => ExecInput::Data(Bytes::from(frame.payload)),
            _ => match frame.message()? {
                guest::Input::Resize(size) => ExecInput::Resize(size_from_wire(size)),
                guest::Input::Signal(signal) => ExecInput::Signal(signal),
            },
        };
        // A command that has ended takes nothing more.
        let _ = to.send(input).await;
    }
    Ok(())
}

pub(super) async fn send_output(
    to: &mut (impl AsyncWrite + Unpin),
    mut outputs: mpsc::Receiver<Output>,
) -> Result<(), FrameError> {
    while let Some(output) = outputs.recv().await {
        let ended: Ended = match output {
            Ok(ExecOutput::Stdout(data)) => {
                send_data(to, Channel::Stdout, &data).await?;
                continue;
            }
            Ok(ExecOutput::Stderr(data)) => {
                send_data(to, Channel::Stderr, &data).await?;
                continue;
            }
            Ok(ExecOutput::Exit(exit)) => Ok(exit_to_wire(exit)),
            Err(error) => Err(error.into()),
        };
        send(to, &ended).await?;
    }
    Ok(())
}

/// Until the command ends or the other side closes.
pub(super) async fn receive_output(
    from: &mut (impl AsyncRead + Unpin),
    to: &mpsc::Sender<Output>,
) -> Result<(), FrameError> {
    while let Some(frame) = read_frame(from).await? {
        let output = match frame.channel {
            Channel::Stdout => Ok(ExecOutput::Stdout(Bytes::from(frame.payload))),
            Channel::Stderr => Ok(ExecOutput::Stderr(Bytes::from(frame.payload))),
            _ => match frame.message::<Ended>()? {
                Ok(exit) => Ok(ExecOutput::Exit(exit_from_wire(exit))),
                Err(failure) => Err(failure.into()),
            },
        };
        if to.send(output).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Sends all of it and its end. What comes back is an error of where the files come from, if any.
pub(super) async fn send_files(
    to: &mut (impl AsyncWrite + Unpin),
    mut files: FileStream,
) -> Result<Result<(), ProviderError>, FrameError> {
    while let Some(event) = files.recv().await {
        match event {
            Ok(FileEvent::Entry(entry)) => {
                send(to, &FileMessage::Entry(entry_to_wire(entry))).await?;
            }
            Ok(FileEvent::Data(data)) => send_data(to, Channel::Data, &data).await?,
            Err(error) => return Ok(Err(error)),
        }
    }
    send(to, &FileMessage::End).await?;
    Ok(Ok(()))
}

/// Until the end, or nobody wants more; a connection cut before the end is an error in the stream.
pub(super) async fn receive_files(from: &mut (impl AsyncRead + Unpin), to: &mpsc::Sender<Event>) {
    loop {
        let (event, last) = match next_event(from).await {
            Ok(None) => return,
            Ok(Some(Ok(event))) => (Ok(event), false),
            Ok(Some(Err(error))) => (Err(error), true),
            Err(error) => (Err(ProviderError::unavailable("files", error)), true),
        };
        if to.send(event).await.is_err() || last {
            return;
        }
    }
}

async fn next_event(from: &mut (impl AsyncRead + Unpin)) -> Result<Option<Event>, FrameError> {
    let frame = read_frame(from).await?.ok_or(FrameError::Closed)?;
    if frame.channel == Channel::Data {
        return Ok(Some(Ok(FileEvent::Data(Bytes::from(frame.payload)))));
    }
    Ok(match frame.message()? {
        FileMessage::Entry(entry) => Some(Ok(FileEvent::Entry(entry_from_wire(entry)))),
        FileMessage::Failed(failure) => Some(Err(failure.into())),
        FileMessage::End => None,
    })
}

async fn send_data(
    to: &mut (impl AsyncWrite + Unpin),
    channel: Channel,
    data: &[u8],
) -> Result<(), FrameError> {
    for piece in data.chunks(MAX_DATA) {
        write_frame(to, channel, piece).await?;
    }
    Ok(())
}
