//! The command line as it was typed, from which messages build the command to type instead.

use std::path::Path;

/// A command line of this program, without the program's name.
#[derive(Clone, Debug)]
pub struct Typed(Vec<String>);

impl Typed {
    /// The command line of this process.
    pub fn here() -> Typed {
        Typed(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect())
    }

    /// Without these options and their values; each option takes one value.
    #[must_use]
    pub fn without(mut self, options: &[String]) -> Typed {
        let mut kept = Vec::new();
        let mut words = self.0.into_iter();
        while let Some(word) = words.next() {
            let (name, has_value) = match word.split_once('=') {
                Some((name, _)) => (name, true),
                None => (word.as_str(), false),
            };
            match options.iter().any(|option| option == name) {
                true if has_value => {}
                true => drop(words.next()),
                false => kept.push(word),
            }
        }
        self.0 = kept;
        self
    }

    /// With this value of an option, added at the end if the option was not given.
    #[must_use]
    pub fn with(self, option: &str, value: &str) -> Typed {
        let mut typed = self.without(&[option.to_owned()]);
        typed.0.extend([option.to_owned(), value.to_owned()]);
        typed
    }

    /// With this directory of data.
    #[must_use]
    pub fn on(self, data: &Path) -> Typed {
        self.with("--data", &data.to_string_lossy())
    }

    /// With another word at this position.
    #[must_use]
    pub fn replace(mut self, word: &str, by: &str) -> Typed {
        if let Some(at) = self.0.iter().position(|w| w == word) {
            self.0[at] = by.into();
        }
        self
    }
}

impl std::fmt::Display for Typed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> = self.0.iter().map(|word| quote(word)).collect();
        write!(f, "`atoll {}`", words.join(" "))
    }
}

/// Quoted so that a shell takes it for one word.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str) -> Typed {
        Typed(text.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn options_are_taken_out_and_put_in() {
        let line = typed("bench tpcb --islands 1,2 --json --scale=3 --data db");
        let options = ["--islands".to_owned(), "--scale".to_owned(), "--design".to_owned()];
        assert_eq!(line.clone().without(&options).to_string(), "`atoll bench tpcb --json --data db`");
        let other = line.on(Path::new("a place")).replace("tpcb", "micro");
        let expected = "`atoll bench micro --islands 1,2 --json --scale=3 --data 'a place'`";
        assert_eq!(other.to_string(), expected);
        assert_eq!(quote("it's"), r"'it'\''s'");
    }
}
