//! The values of expressions, and the errors of wrong ones.

use super::*;

fn rows() -> Vec<Row> {
    let lines = [
        r#"{"op":"read","islands":1,"multisite":0,"tps":100,"t":{"a":1,"b":2}}"#,
        r#"{"op":"read","islands":1,"multisite":100,"tps":98,"t":{"a":2,"b":2}}"#,
        r#"{"op":"read","islands":2,"multisite":0,"tps":150,"t":{"a":3,"b":2}}"#,
        r#"{"op":"read","islands":2,"multisite":100,"tps":50,"t":{"a":4,"b":2}}"#,
        r#"{"op":"update","islands":2,"multisite":100,"tps":10,"note":"two words","consistent":true}"#,
    ];
    lines.map(|l| Row::parse(l).unwrap()).into()
}

fn names() -> Names {
    let mut names = Names::default();
    names.values.insert("limit".into(), vec![1.1]);
    names.columns.insert("both".into(), Expression::parse("t.a + t.b").unwrap());
    names
}

fn values(text: &str) -> Result<Vec<f64>, EvalError> {
    let rows = rows();
    Expression::parse(text).unwrap().values(&rows.iter().collect::<Vec<_>>(), &names())
}

fn holds(text: &str) -> bool {
    let rows = rows();
    Condition::parse(text).unwrap().holds(&rows.iter().collect::<Vec<_>>(), &names()).unwrap()
}

#[test]
fn numbers_are_picked_and_put_together() {
    for (text, expected) in [
        ("tps[op=read, islands=1]", &[100.0, 98.0][..]),
        ("tps[op!=read]", &[10.0]),
        ("tps[multisite=0|100, op=update]", &[10.0]),
        ("tps[note='two words']", &[10.0]),
        ("tps[consistent=true] + consistent[op=update]", &[11.0]),
        ("tps[op=read][islands=max]", &[150.0, 50.0]),
        ("tps[op=read, islands=min, multisite=max]", &[98.0]),
        ("both[op=read]", &[3.0, 4.0, 5.0, 6.0]),
        ("(t.b - t.a)[op=read, islands=2]", &[-1.0, -2.0]),
        ("1 + 2 * 3 - 4 / 2", &[5.0]),
        ("-(1 + 2)", &[-3.0]),
        ("tps[islands=1] / tps[islands=1, multisite=0]", &[1.0, 0.98]),
        ("or_zero(t.a)", &[1.0, 2.0, 3.0, 4.0, 0.0]),
    ] {
        assert_eq!(values(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn functions() {
    for (text, expected) in [
        ("min(tps)", &[10.0][..]),
        ("max(tps)", &[150.0]),
        ("mean(tps[islands=1])", &[99.0]),
        ("sum(tps[islands=2])", &[210.0]),
        ("count(tps)", &[5.0]),
        ("steps(tps[op=read])", &[-2.0, 52.0, -100.0]),
        ("abs(steps(tps[islands=1]))", &[2.0]),
        ("slope(multisite[islands=1], tps[islands=1])", &[-0.02]),
        ("straight(t.a[op=read], t.a[op=read] * 3)", &[1.0]),
    ] {
        let found = values(text).unwrap();
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{text}: {found:?}");
        assert_eq!(found.len(), expected.len(), "{text}");
    }
    let bent = values("straight(t.a[op=read], t.a[op=read] * t.a[op=read] * t.a[op=read])").unwrap()[0];
    assert!(bent < 0.95, "{bent}");
}

/// Each comparison once true and once false.
#[test]
fn conditions() {
    for (yes, no) in [
        ("max(tps[islands=1]) / min(tps[islands=1]) <= limit", "max(tps) / min(tps) <= limit"),
        ("tps[op=read, islands=2, multisite=0] > tps[islands=1]", "tps[op=read] > 60"),
        ("tps >= 10", "tps >= 11"),
        ("tps[op=update] < tps[op=read]", "tps < 150"),
        ("0.1 + 0.2 = 0.3", "0.1 + 0.2 = 0.31"),
        ("-2 <= steps(tps[islands=1]) <= 2", "-1 <= steps(tps[islands=1]) <= 2"),
        ("count(tps) = 5", "count(tps[op=read]) = 5"),
    ] {
        assert!(holds(yes), "{yes}");
        assert!(!holds(no), "{no}");
    }
}

#[test]
fn what_rows_do_not_say_is_an_error_and_not_a_verdict() {
    assert_eq!(values("nothing"), Err(EvalError::NoField("nothing".into())));
    assert_eq!(values("t.a"), Err(EvalError::NoField("t.a".into())));
    assert_eq!(values("tps[op=delete]"), Err(EvalError::NoRows("op=delete".into())));
    assert_eq!(values("tps + tps[islands=1]"), Err(EvalError::Lengths { left: 5, right: 2 }));
    assert!(matches!(values("1 / 0"), Err(EvalError::NotFinite(_))));
    assert!(matches!(values("min(steps(tps[op=update]))"), Err(EvalError::Nothing("min"))));
}

#[test]
fn wrong_text_is_told_with_its_place() {
    for (text, column, part) in [
        ("tps[", 5, "field"),
        ("tps[op]", 7, "="),
        ("tps[op=]", 8, "value"),
        ("tps)", 4, "operator"),
        ("(tps", 5, ")"),
        ("maximum(tps)", 1, "max"),
        ("slope(tps)", 10, "2 arguments"),
        ("1 +", 4, "number"),
        ("1.2.3", 6, "number"),
    ] {
        let error = Expression::parse(text).unwrap_err();
        assert_eq!(error.column, column, "{error}");
        assert!(error.expected.contains(part), "{error}");
    }
    assert!(Condition::parse("tps").unwrap_err().expected.contains('<'));
}

/// Each bracket or sign costs one level of recursion: without a limit, about ten thousand of them
/// overflow the stack.
#[test]
fn a_text_that_nests_too_deep_is_refused() {
    for (open, close) in [("(", ")"), ("-", ""), ("abs(", ")"), ("1+", "")] {
        let text = |n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
        assert!(Expression::parse(&text(50)).is_ok(), "{open}");
        let error = Expression::parse(&text(100_000)).unwrap_err();
        assert!(error.expected.contains("no more than"), "{open}: {}", error.expected);
    }
    assert!(Expression::parse(&format!("1{}", "[a=1]".repeat(100_000))).is_err());
}
