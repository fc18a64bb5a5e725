//! `atoll serve --config FILE`: options in a file, under their own names.
//!
//! ```text
//!   data = "/var/lib/atoll"
//!   islands = 2
//!   json = true
//! ```
//!
//! The file's options are put before those that are typed, and an option that is typed is left out
//! of them. So every check and every message is that of the command line.

use crate::failure::Failure;
use std::ffi::OsString;
use std::path::PathBuf;

const OPTION: &str = "--config";

/// The words of a command line with the options of its configuration file, if it names one.
///
/// # Errors
/// When the file cannot be read, or is no list of options.
pub fn with_its_options(words: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    if words.get(1).is_none_or(|command| command != "serve") {
        return Ok(words);
    }
    let Some(file) = named(&words) else { return Ok(words) };
    let cannot = |why: &dyn std::fmt::Display| Failure::Usage(format!("{OPTION} {}: {why}", file.display()));
    let text = std::fs::read_to_string(&file).map_err(|why| cannot(&why))?;
    let table: toml::Table =
        text.parse().map_err(|why: toml::de::Error| cannot(&why.to_string().trim_end()))?;
    let mut all = words[..2].to_vec();
    for (name, value) in &table {
        let word = word(name, value).map_err(|why| cannot(&why))?;
        all.extend(word.filter(|_| !is_typed(&words, name)));
    }
    all.extend_from_slice(&words[2..]);
    Ok(all)
}

/// The file that the command line names.
fn named(words: &[OsString]) -> Option<PathBuf> {
    words.iter().enumerate().find_map(|(at, word)| match word.to_str()? {
        OPTION => words.get(at + 1).map(PathBuf::from),
        word => word.strip_prefix(OPTION)?.strip_prefix('=').map(PathBuf::from),
    })
}

fn is_typed(words: &[OsString], name: &str) -> bool {
    let option = format!("--{name}");
    let begins = |word: &str| word.split('=').next() == Some(option.as_str());
    words.iter().any(|word| word.to_str().is_some_and(begins))
}

/// An option as it would be typed; none for one that is off.
fn word(name: &str, value: &toml::Value) -> Result<Option<OsString>, String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(is_name) || OPTION.ends_with(name) {
        return Err(format!("{name}: expected the name of an option of atoll serve, e.g. lock-timeout"));
    }
    Ok(match value {
        toml::Value::Boolean(false) => None,
        toml::Value::Boolean(true) => Some(format!("--{name}").into()),
        toml::Value::String(text) => Some(format!("--{name}={text}").into()),
        toml::Value::Integer(number) => Some(format!("--{name}={number}").into()),
        _ => return Err(format!("{name}: expected a number, a text in quotes, true or false")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(file: &str, typed: &[&str]) -> Result<Vec<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("atoll.toml");
        std::fs::write(&path, file).unwrap();
        let option = format!("--config={}", path.display());
        let words = ["atoll", "serve", &option].into_iter().chain(typed.iter().copied()).map(OsString::from);
        let words = with_its_options(words.collect()).map_err(|failure| failure.to_string())?;
        let words = words.into_iter().map(|word| word.into_string().unwrap());
        Ok(words.filter(|word| *word != option).collect())
    }

    #[test]
    fn options_of_the_file_come_first_and_typed_ones_count() {
        let file = "data = \"db\"\nislands = 2\njson = true\n# a comment\nstatus = \"127.0.0.1:0\"\n";
        let words = with(file, &["--islands", "4", "--status=[::1]:80"]).unwrap();
        assert_eq!(words, ["atoll", "serve", "--data=db", "--json", "--islands", "4", "--status=[::1]:80"]);
        assert_eq!(with("json = false", &[]).unwrap(), ["atoll", "serve"]);
    }

    #[test]
    fn what_is_no_option_is_refused_with_its_name() {
        for (file, word) in [
            ("islands = [1]", "islands"),
            ("config = \"x\"", "config"),
            ("Data = \"x\"", "Data"),
            ("data = ", "data"),
            ("[serve]\ndata = \"x\"", "serve"),
        ] {
            let error = with(file, &[]).unwrap_err();
            assert!(error.contains(word) && error.contains("--config"), "{error}");
        }
        let words = ["atoll", "serve", "--config", "/nowhere/atoll.toml"].map(OsString::from).to_vec();
        assert!(with_its_options(words).unwrap_err().to_string().contains("/nowhere/atoll.toml"));
    }
}
