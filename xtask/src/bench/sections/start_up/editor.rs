//! The time until an editor has an answer from `herma acp`, compared with `serve` on the same data.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::bench::load;
use crate::bench::testbed::{Target, Testbed};

const INITIALIZE: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,\"clientCapabilities\":{}}}\n";

/// From the start of `serve` to its first answer to `/health`. The data directory has to exist.
pub(super) async fn serve_to_health(testbed: &Testbed, data: &str) -> io::Result<Duration> {
    let child = testbed.launch(Target::Herma, data)?;
    let mut connection = load::connect(child.address()).await?;
    load::in_time(load::exchange(&mut connection, &load::get("/health"))).await?;
    Ok(child.started().elapsed())
}

/// From the start of `herma acp` to its answer to `initialize`. The agent then ends, because its input does.
pub(super) fn acp_to_initialize(testbed: &Testbed, data: &str) -> io::Result<Duration> {
    initialized(&mut testbed.editor_command(data)?)
}

fn initialized(command: &mut Command) -> io::Result<Duration> {
    let started = Instant::now();
    let mut agent = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let (stdin, stdout) = (agent.stdin.take(), agent.stdout.take());
    let answer = match (stdin, stdout) {
        (Some(mut stdin), Some(stdout)) => stdin.write_all(INITIALIZE).and_then(|()| {
            let mut answer = String::new();
            BufReader::new(stdout).read_line(&mut answer)?;
            Ok((started.elapsed(), answer))
        }),
        _ => Err(io::Error::other("its streams are not piped")),
    };
    agent.wait()?;
    let (took, answer) = answer?;
    if answer.contains("\"protocolVersion\":1") {
        Ok(took)
    } else {
        Err(io::Error::other(format!("{command:?} did not answer initialize: {answer:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_runs_until_the_answer_and_an_agent_without_one_is_an_error() {
        let agent = |script: &str| initialized(Command::new("sh").args(["-c", script]));
        let answers = r#"read -r asked; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'; cat"#;
        assert!(agent(answers).unwrap() > Duration::ZERO);
        let error = agent("read -r asked; echo no").unwrap_err();
        assert!(error.to_string().contains("did not answer initialize"), "{error}");
    }
}
