//! When, where and by which command a row was measured.

use std::path::Path;
use std::sync::OnceLock;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The commit of the program. The program names it, and not this crate: otherwise every commit
/// would compile this crate, and those that are built on it, anew.
static COMMIT: OnceLock<&'static str> = OnceLock::new();

/// Names the commit that the program was built from, for all rows from here on. The first call
/// counts.
pub fn built_from(commit: &'static str) {
    COMMIT.get_or_init(|| commit);
}

pub(crate) fn commit() -> &'static str {
    COMMIT.get().unwrap_or(&"unknown")
}

/// Now, in UTC to the second: `2026-11-24T11:53:43Z`.
pub(crate) fn date() -> String {
    in_words(OffsetDateTime::now_utc())
}

fn in_words(moment: OffsetDateTime) -> String {
    // Zero is a valid nanosecond, and RFC 3339 can write every year from 0 to 9999.
    let whole = moment.replace_nanosecond(0).unwrap_or(moment);
    whole.format(&Rfc3339).unwrap_or_default()
}

/// The command line of this process, quoted for a shell, with the program's name without its
/// directories.
pub(crate) fn command() -> String {
    let mut words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(program) = words.first_mut() {
        let name = Path::new(program.as_str()).file_name().map(|name| name.to_string_lossy().into_owned());
        *program = name.unwrap_or_default();
    }
    quoted(&words)
}

fn quoted(words: &[String]) -> String {
    // A word with a zero byte cannot be quoted, but no process can have such an argument.
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_utc_to_the_second() {
        let moment = OffsetDateTime::from_unix_timestamp_nanos(1_795_521_223_987_654_321).unwrap();
        assert_eq!(in_words(moment), "2026-11-24T11:53:43Z");
        assert_eq!(date().len(), "2026-11-24T11:53:43Z".len());
    }

    #[test]
    fn a_shell_takes_the_command_again() {
        let words = ["atoll", "bench", "micro", "--phases", "10s:hot:50/30;20s:hot off", "it's"];
        let words: Vec<String> = words.iter().map(|w| w.to_string()).collect();
        assert_eq!(shlex::split(&quoted(&words)), Some(words));
        assert!(!command().contains('/') || !command().starts_with('/'), "{}", command());
    }
}
