//! The plugin's arguments.

use std::ffi::{CStr, c_char, c_int};

#[derive(Debug, Default)]
pub struct Settings {
    /// The prefix of the files.
    pub out: String,
    /// Transactions that are not recorded at the start.
    pub skip: u64,
    /// Transactions to record.
    pub count: u64,
    /// Transactions to record of each kind; empty for any `count`.
    pub quota: Vec<(String, u64)>,
}

/// # Safety
/// `argv` points to `argc` strings.
pub unsafe fn typed(argc: c_int, argv: *mut *mut c_char) -> Vec<String> {
    let count = usize::try_from(argc).unwrap_or(0);
    // SAFETY: the caller's promise; both are only read here.
    let string = |i| unsafe { CStr::from_ptr(*argv.add(i)).to_string_lossy().into_owned() };
    (0..count).map(string).collect()
}

impl Settings {
    /// # Errors
    /// The argument that is wrong, and what was expected.
    pub fn parse(typed: &[String]) -> Result<Settings, String> {
        let mut settings = Settings::default();
        for word in typed {
            let wrong = || format!("{word}: expected out=PREFIX, skip=N, count=N or quota=KIND:N");
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            let number = |text: &str| text.parse().map_err(|_| wrong());
            match name {
                "out" => settings.out = value.to_owned(),
                "skip" => settings.skip = number(value)?,
                "count" => settings.count = number(value)?,
                "quota" => {
                    let (kind, n) = value.split_once(':').ok_or_else(wrong)?;
                    settings.quota.push((kind.to_owned(), number(n)?));
                }
                _ => return Err(wrong()),
            }
        }
        if !settings.quota.is_empty() {
            settings.count = settings.quota.iter().map(|(_, n)| n).sum();
        }
        Ok(settings)
    }
}
