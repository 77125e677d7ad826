//! What the hub sends, as the agent takes it. Pure.

use crate::prompt::{Attachment, Author, PromptId, Signature};
use crate::{Prompt, SessionRef};
use ::wire::link::{self, Source};

pub fn prompt(prompt: link::Prompt) -> Result<Prompt, String> {
    let channel = prompt
        .channel
        .parse()
        .map_err(|error: crate::channel::ChannelKeyError| error.to_string())?;
    let models = prompt
        .chain
        .iter()
        .map(|name| name.parse())
        .collect::<Result<_, crate::prompt::ModelNameError>>()
        .map_err(|error| error.to_string())?;
    let attachments = prompt.attachments.into_iter().map(attachment);
    Ok(Prompt {
        id: PromptId(prompt.id),
        channel,
        text: prompt.content,
        author: prompt.author.map(author),
        attachments: attachments.collect::<Result<_, _>>()?,
        models,
        session: prompt.agent_session.map(SessionRef),
    })
}

fn attachment(attachment: link::Attachment) -> Result<Attachment, String> {
    match attachment.source {
        Source::Data(data) => Ok(Attachment {
            name: attachment.name,
            media_type: attachment.media_type,
            data,
        }),
        // They were fetched before it came here.
        Source::Upload(_) | Source::File(_) => Err(format!(
            "the attachment {} was not brought along",
            attachment.name
        )),
    }
}

fn author(author: link::Author) -> Author {
    let name = author.git_name.as_ref().or(author.name.as_ref());
    let mail = author.git_email.as_ref().or(author.email.as_ref());
    Author {
        signs: name
            .zip(mail)
            .and_then(|(name, mail)| Signature::new(name, mail)),
        name: author.name.unwrap_or_else(|| author.id.clone()),
        mail: author.email,
        user: Some(author.id),
    }
}

pub fn file_diff(file: crate::FileDiff) -> link::FileDiff {
    link::FileDiff {
        path: file.file.path,
        status: super::tell::change(file.file.change),
        patch: Some(file.patch),
    }
}

pub fn review(review: crate::review::Review) -> link::Review {
    use crate::review::Severity;

    let finding = |finding: crate::review::Finding| link::Finding {
        severity: match finding.severity {
            Severity::Critical => link::Severity::Critical,
            Severity::Warning => link::Severity::Warning,
            Severity::Suggestion => link::Severity::Suggestion,
            Severity::Nitpick => link::Severity::Nitpick,
        },
        title: finding.title,
        detail: finding.detail,
        line: finding.line,
    };
    link::Review {
        summary: review.summary,
        files: review
            .files
            .into_iter()
            .map(|file| link::FileFindings {
                path: file.path,
                findings: file.findings.into_iter().map(finding).collect(),
            })
            .collect(),
        counts: link::Counts {
            critical: review.counts.critical as u64,
            warning: review.counts.warning as u64,
            suggestion: review.counts.suggestion as u64,
            nitpick: review.counts.nitpick as u64,
        },
    }
}
