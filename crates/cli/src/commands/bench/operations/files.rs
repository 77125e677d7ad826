use std::time::Instant;

use bytes::Bytes;
use provider::{FileEntry, FileEvent, FileKind, Provider as _, files_from};

use super::super::stats::Samples;
use super::{Bench, limited};
use crate::error::CommandError;

const CONTENT: &[u8] = &[b'x'; 200];

/// Small files in and out again. No goal is set for these.
pub(in super::super) async fn run(bench: &mut Bench) -> Result<(), CommandError> {
    let local = &bench.local;
    let count = bench.runs.some_files;
    let id = local.create(&limited()).await?.id;
    let (mut written, mut read) = (Samples::default(), Samples::default());
    for run in 0..bench.runs.seldom {
        bench.interrupt.check().await?;
        let place = format!("/bench/{run}");
        let begun = Instant::now();
        let files = files_from(small_files(count));
        local.write_files(id, place.as_bytes(), None, files).await?;
        written.add(begun.elapsed());

        let begun = Instant::now();
        let mut stream = local.read_files(id, place.as_bytes(), None).await?;
        let mut bytes = 0;
        while let Some(event) = stream.recv().await {
            if let FileEvent::Data(data) = event? {
                bytes += data.len();
            }
        }
        read.add(begun.elapsed());
        if bytes != count * CONTENT.len() {
            return Err(CommandError::failed(format!(
                "{} bytes were written and {bytes} came back",
                count * CONTENT.len()
            )));
        }
    }
    local.remove(id).await?;
    bench
        .report
        .times(&format!("files_write_{count}"), &written);
    bench.report.times(&format!("files_read_{count}"), &read);
    Ok(())
}

fn small_files(count: usize) -> Vec<(FileEntry, Bytes)> {
    (0..count)
        .map(|index| {
            let entry = FileEntry {
                path: format!("f{index}").into_bytes(),
                kind: FileKind::File,
                mode: 0o644,
                uid: None,
                gid: None,
            };
            (entry, Bytes::from_static(CONTENT))
        })
        .collect()
}
