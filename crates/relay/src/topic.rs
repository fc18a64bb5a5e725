//! Makes a topic of Kafka with the settings on which a log depends, which `rskafka` cannot name.
//!
//! ```text
//! question  size i32 | 19 i16 | version i16 | number i32 | client text | topics | wait ms i32 | 0
//! u8 topics    1 i32 | name text | partitions i32 | copies i16 | 0 i32 | settings settings  count
//! i32 | (name text | value text) each answer    size i32 | number i32 | throttled ms i32 | 1 i32 |
//! name text | error i16 | message text
//! ```
//! Numbers are big-endian; a text is its length (i16, -1 for none) and its bytes. From the guide of
//! the Kafka protocol: CreateTopics (key 19), version 2. Any broker passes it on to the controller.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a broker may take.
const PATIENCE: Duration = Duration::from_secs(6);
/// The longest answer accepted, in bytes.
const LONGEST: usize = 1 << 16;
const CREATE: i16 = 19;
const VERSION: i16 = 2;
/// Codes of errors.
const IS_THERE: i16 = 36;
const TOO_MANY_COPIES: i16 = 38;

/// Why a topic was not made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unmade {
    /// There are fewer brokers than copies.
    TooManyCopies(String),
    /// For the caller to try again.
    NotNow(String),
}

/// The settings of a log: nothing of it is ever removed, no broker acknowledges alone, and none
/// that lacks entries leads.
fn settings(copies: usize) -> Vec<(&'static str, &'static str)> {
    let mut all = vec![
        ("cleanup.policy", "delete"),
        ("retention.ms", "-1"),
        ("retention.bytes", "-1"),
        ("unclean.leader.election.enable", "false"),
    ];
    if copies > 2 {
        all.push(("min.insync.replicas", "2"));
    }
    all
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as i16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn question(topic: &str, copies: usize) -> Vec<u8> {
    let mut out = vec![0; 4];
    for number in [CREATE, VERSION] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.extend_from_slice(&1_i32.to_be_bytes());
    put_text(&mut out, "atoll");
    out.extend_from_slice(&1_i32.to_be_bytes());
    put_text(&mut out, topic);
    out.extend_from_slice(&1_i32.to_be_bytes());
    out.extend_from_slice(&(copies as i16).to_be_bytes());
    out.extend_from_slice(&0_i32.to_be_bytes());
    let settings = settings(copies);
    out.extend_from_slice(&(settings.len() as i32).to_be_bytes());
    for (name, value) in settings {
        put_text(&mut out, name);
        put_text(&mut out, value);
    }
    out.extend_from_slice(&5_000_i32.to_be_bytes());
    out.push(0);
    let size = (out.len() - 4) as i32;
    out[..4].copy_from_slice(&size.to_be_bytes());
    out
}

fn number(bytes: &mut &[u8]) -> Option<i16> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(i16::from_be_bytes(*first))
}

fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number(bytes)?.max(0);
    let (text, rest) = bytes.split_at_checked(length as usize)?;
    *bytes = rest;
    Some(text)
}

/// The code of the error, and its message, of an answer behind its size.
fn outcome(answer: &[u8]) -> Option<(i16, String)> {
    // Its number, the time for which it was throttled, the count of topics.
    let mut rest = answer.get(12..)?;
    text(&mut rest)?;
    let code = number(&mut rest)?;
    Some((code, String::from_utf8_lossy(text(&mut rest)?).into_owned()))
}

async fn ask(server: &str, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(question).await?;
    let size = stream.read_i32().await?;
    let size = usize::try_from(size).ok().filter(|size| *size <= LONGEST);
    let mut answer = vec![0; size.ok_or_else(|| io::Error::other("this is no answer of Kafka"))?];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// Makes a topic, unless it is there: through the first broker that answers.
///
/// # Errors
/// [`Unmade`].
pub(crate) async fn make(servers: &[String], topic: &str, copies: usize) -> Result<(), Unmade> {
    let (question, mut why) = (question(topic, copies), String::new());
    for server in servers {
        let asked = tokio::time::timeout(PATIENCE, ask(server, &question)).await;
        match asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Err(e) => why = format!("{server}: {e}"),
            Ok(answer) => match outcome(&answer) {
                Some((0 | IS_THERE, _)) => return Ok(()),
                Some((TOO_MANY_COPIES, message)) => return Err(Unmade::TooManyCopies(message)),
                Some((code, message)) => why = format!("{server}: error {code}, {message}"),
                None => why = format!("{server}: this is no answer of Kafka"),
            },
        }
    }
    Err(Unmade::NotNow(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_has_the_settings_and_answers_are_understood() {
        let bytes = question("atoll-db-0", 3);
        assert_eq!(bytes[..4], (bytes.len() as i32 - 4).to_be_bytes());
        assert_eq!(bytes[4..12], [0, 19, 0, 2, 0, 0, 0, 1]);
        let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(has("\0\x0cretention.ms\0\x02-1") && has("\0\x13min.insync.replicas\0\x012"));
        assert!(question("t", 1).len() < bytes.len());
        let answer = |code: i16, message: &[u8]| {
            [&[0; 11][..], &[1, 0, 1, b't'], &code.to_be_bytes(), message].concat()
        };
        assert_eq!(outcome(&answer(0, &[0xff, 0xff])), Some((0, String::new())));
        assert_eq!(outcome(&answer(IS_THERE, b"\0\x02no")), Some((IS_THERE, "no".into())));
        for short in 0..19 {
            assert_eq!(outcome(&answer(IS_THERE, b"\0\x02no")[..short]), None, "{short}");
        }
    }
}
