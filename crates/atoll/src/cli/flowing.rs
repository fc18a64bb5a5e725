//! Help texts that fill the width of the terminal: the parser breaks long lines, and keeps the
//! breaks of the source besides.

use clap::Command;

/// A command and its subcommands, with each paragraph below the options as one line.
pub(super) fn flow(mut command: Command) -> Command {
    let joined = |text: &clap::builder::StyledStr| joined(&text.to_string());
    if let Some(text) = command.get_after_help().map(joined) {
        command = command.after_help(text);
    }
    if let Some(text) = command.get_after_long_help().map(joined) {
        command = command.after_long_help(text);
    }
    command.mut_subcommands(flow)
}

/// Joins the lines of a paragraph. Indented lines and headings, which end with a colon, stay.
fn joined(text: &str) -> String {
    let goes_on = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut out = String::with_capacity(text.len());
    let mut before = "";
    for line in text.lines() {
        let joins = goes_on(before) && goes_on(line) && !before.ends_with(':');
        if !out.is_empty() {
            out.push(if joins { ' ' } else { '\n' });
        }
        out.push_str(line);
        before = line;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn paragraphs_are_joined_and_lists_stay() {
        let text = "Examples:\n  one\n  two\n\nA sentence\nof two lines.\n\nOptions:\nlast";
        assert_eq!(joined(text), "Examples:\n  one\n  two\n\nA sentence of two lines.\n\nOptions:\nlast");
    }
}
