//! Whose name is on a commit.

use agent::event::{Happening, Reason};
use agent::prompt::{Author, Signature};
use agent::{Agent as _, ChannelKey, Prompt};

use super::office::{self, Office, Wants};

fn author(name: &str) -> Author {
    let mail = format!("{}@example.com", name.to_lowercase());
    Author {
        name: name.to_owned(),
        signs: Signature::new(name, &mail),
        mail: None,
        user: None,
    }
}

/// A commit in a repository of its own, made while the other one's command runs too.
fn commits(mine: &str, other: &str) -> String {
    let command = format!(
        "touch began-{mine}; for i in $(seq 200); do [ -e began-{other} ] && break; sleep 0.05; done; \
         git init -q {mine} && cd {mine} && git commit -q --allow-empty -m by-{mine}"
    );
    format!(
        "!!{{\"tool\": \"bash\", \"input\": {{\"command\": \"{command}\", \"description\": \"commit\"}}}}\n\
         !!{{\"text\": \"done\"}}"
    )
}

#[tokio::test]
async fn two_who_commit_at_once_each_sign_their_own() {
    let mut office = office!(Wants::default());
    let channels: [ChannelKey; 2] = [ChannelKey::web(), "slack:C1".parse().unwrap()];
    let names = [("Ada", "Bo"), ("Bo", "Ada")];
    for (channel, (mine, other)) in channels.iter().zip(names) {
        let text = commits(mine, other);
        let mut prompt = Prompt::text(mine, channel.clone(), &text);
        prompt.author = Some(author(mine));
        office.agent.accept(prompt).await.unwrap().start();
    }
    for _ in channels {
        let ended = office.until(|event| match &event.happening {
            Happening::TurnDone { reason, .. } => Some(*reason),
            _ => None,
        });
        assert_eq!(ended.await, Reason::EndTurn);
    }
    for (mine, _) in names {
        let mail = mine.to_lowercase();
        let expected = format!("{mine} <{mail}@example.com> {mine} <{mail}@example.com>");
        assert_eq!(
            office
                .git(mine, &["log", "--format=%an <%ae> %cn <%ce>"])
                .await,
            expected
        );
    }
    let told = format!("{:?}", office.model.shown());
    assert!(
        !told.contains("nacre_author"),
        "the model has no use for it"
    );
    office.close().await;
}

#[tokio::test]
async fn a_subagent_signs_for_whom_it_works_and_the_next_prompt_for_its_own_author() {
    let mut office = office!(Wants::default());
    let commit = |name: &str| {
        format!(
            "!!{{\\\"tool\\\": \\\"bash\\\", \\\"input\\\": {{\\\"command\\\": \\\"git init -q {name} && git -C {name} commit -q --allow-empty -m x\\\", \\\"description\\\": \\\"d\\\"}}}}\\n!!{{\\\"text\\\": \\\"sub done\\\"}}"
        )
    };
    let task = format!(
        "!!{{\"tool\": \"task\", \"input\": {{\"description\": \"sub\", \"subagent_type\": \"general\", \"prompt\": \"{}\"}}}}\n!!{{\"text\": \"done\"}}",
        commit("sub")
    );
    let mut prompt = Prompt::text("p1", ChannelKey::web(), &task);
    prompt.author = Some(author("Ada"));
    office.agent.accept(prompt).await.unwrap().start();
    let events = office.until_done().await;
    assert!(
        events.iter().any(|event| matches!(&event.happening, Happening::TurnDone { text, .. } if text.contains("done"))),
        "{events:#?}"
    );
    assert_eq!(office.git("sub", &["log", "--format=%an"]).await, "Ada");

    let next = "!!{\"tool\": \"bash\", \"input\": {\"command\": \"git -C sub -c user.name=Nobody -c user.email=n@example.com commit -q --allow-empty -m y\", \"description\": \"d\"}}\n!!{\"text\": \"done\"}";
    let prompt = Prompt::text("p2", ChannelKey::web(), next);
    office.agent.accept(prompt).await.unwrap().start();
    office.until_done().await;
    assert_eq!(
        office.git("sub", &["log", "-1", "--format=%an"]).await,
        "Nobody"
    );
    office.close().await;
}
