//! Every declaration is complete, and says the same as the engine.

use super::*;
use std::collections::BTreeSet;

/// A text for each kind of value, beside the default.
fn samples(option: &EngineOption) -> Vec<String> {
    match option.takes {
        Takes::Words(words) => words.iter().map(|(word, _)| word.to_string()).collect(),
        Takes::Number(least, most) => vec![least.to_string(), most.to_string()],
        Takes::Millis(least, most) | Takes::Time(least, most) => {
            vec![least.to_string(), most.to_string()]
        }
        Takes::Text => option.default.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn every_declaration_is_complete() {
    for option in OPTIONS {
        let name = option.name;
        assert!(!name.is_empty() && !option.value.is_empty() && !option.help.is_empty(), "--{name}");
        assert!(!option.help.ends_with('.') && !option.help.contains('\n'), "--{name}: {}", option.help);
        if let Takes::Words(words) = option.takes {
            assert!(words.len() > 1 && words.iter().all(|(_, help)| !help.is_empty()), "--{name}");
        }
        let has_default = option.default.is_some() || option.help.contains("[default: ");
        assert!(has_default, "--{name}: its help does not tell its default");
        assert!(DesignKind::ALL.iter().any(|design| option.designs.has(*design)), "--{name}");
        let forced = DesignKind::ALL.into_iter().filter_map(option.forced);
        let samples = samples(option);
        for word in forced.chain(option.harmless).map(str::to_owned) {
            assert!(samples.contains(&word), "--{name}: {word}");
        }
    }
}

#[test]
fn names_and_columns_differ() {
    let names: BTreeSet<&str> = OPTIONS.iter().map(|option| option.name).collect();
    let columns: Vec<&str> = OPTIONS.iter().filter_map(|option| option.column.name()).collect();
    assert_eq!(names.len(), OPTIONS.len());
    assert_eq!(columns.iter().collect::<BTreeSet<_>>().len(), columns.len());
    let swept = OPTIONS.iter().filter(|option| option.values == Values::List);
    let hidden: Vec<&str> = swept.filter(|o| o.column.name().is_none()).map(|o| o.name).collect();
    assert_eq!(hidden, [""; 0], "rows of a sweep over it could not be told apart");
}

/// The report finds the option of a column by this rule.
#[test]
fn a_column_has_the_name_of_its_option() {
    for option in OPTIONS {
        let column = option.name.replace('-', "_");
        assert!(option.column.name().is_none_or(|name| name == column), "--{}", option.name);
    }
}

#[test]
fn what_is_set_is_what_is_got_and_nothing_else_changes() {
    for option in OPTIONS {
        for text in samples(option) {
            let mut options = EngineOptions::default();
            (option.set)(&mut options, &text).unwrap_or_else(|why| panic!("--{}: {why}", option.name));
            assert_eq!((option.get)(&options).as_deref(), Some(text.as_str()), "--{}", option.name);
            let others = OPTIONS.iter().filter(|other| other.name != option.name);
            for other in others {
                let before = (other.get)(&EngineOptions::default());
                assert_eq!((other.get)(&options), before, "--{} sets --{}", option.name, other.name);
            }
        }
        if !matches!(option.takes, Takes::Millis(..) | Takes::Time(..)) {
            let mut options = EngineOptions::default();
            assert!((option.set)(&mut options, "no such value").is_err(), "--{}", option.name);
        }
    }
}

#[test]
fn the_help_tells_the_defaults() {
    for option in OPTIONS {
        let Some(told) = option.default else { continue };
        let value = (option.get)(&EngineOptions::default()).unwrap();
        assert_eq!(told.strip_suffix("ms").unwrap_or(told), value, "--{}", option.name);
    }
}

#[test]
fn the_time_of_distributed_transactions_follows_that_of_locks_unless_it_is_set() {
    for (locks, own, ms) in
        [(100, None, 2_000), (1_000, None, 2_000), (30_000, None, 60_000), (30_000, Some(50), 50)]
    {
        let options =
            EngineOptions { lock_timeout_ms: locks, distributed_timeout_ms: own, ..EngineOptions::default() };
        assert_eq!(options.distributed_timeout_ns(), ms * 1_000_000);
    }
}
