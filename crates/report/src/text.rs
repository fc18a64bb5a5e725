//! Makes untrusted text safe for its place in the page; formats numbers for readers.

/// Escapes for text and quoted attributes of HTML.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in HTML.
            c if c.is_control() && !c.is_ascii_whitespace() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// JSON for a `<script>` element. The HTML parser looks only for `</script` and `<!--` there. JSON
/// has `<` only within strings, where it can be escaped.
pub fn script_json(value: &impl serde::Serialize) -> String {
    // Values of this crate have string keys and finite numbers, so they always serialise.
    serde_json::to_string(value).unwrap_or_else(|_| "null".into()).replace('<', "\\u003c")
}

/// 1234567.8 -> "1,234,568".
pub fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::from(if value <= -0.5 { "-" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// About three significant digits: 1,234 · 123 · 12.3 · 1.23 · 0.0123.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if !v.is_finite() => "–".into(),
        v if v >= 100.0 => thousands(value),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        v if v >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_where_it_was_put() {
        assert_eq!(
            escape("<a href=\"x\">'&'</a>\0"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;\u{fffd}"
        );
        let json = script_json(&"</script><!-- \u{2028}");
        assert!(!json.contains('<'), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "</script><!-- \u{2028}");
    }

    #[test]
    fn numbers_for_people() {
        let all = [0.0, 0.0123, 0.5, 1.234, 12.34, 123.4, 1234567.8, -2.5, 1e-9].map(short);
        assert_eq!(all, ["0", "0.0123", "0.50", "1.23", "12.3", "123", "1,234,568", "-2.50", "1.0e-9"]);
    }
}
