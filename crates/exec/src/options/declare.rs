//! The words in which an option is declared: its values, its section of the help, its designs.

use crate::design::DesignKind;

/// Defines an enum of the values of one option. Each has its spelling and its line of the help. The
/// first is the default.
macro_rules! words {
    ($(#[$about:meta])* $name:ident {
        $first:ident $first_text:literal $first_help:literal $($variant:ident $text:literal $help:literal)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum $name {
            #[doc = $first_help]
            #[default]
            $first,
            $(#[doc = $help] $variant),*
        }

        impl $name {
            pub const ALL: &[$name] = &[$name::$first, $($name::$variant),*];

            /// The values with their lines of the help.
            pub const WORDS: &[(&'static str, &'static str)] =
                &[($first_text, $first_help), $(($text, $help)),*];

            /// As the command line spells it.
            pub const fn name(self) -> &'static str {
                match self { $name::$first => $first_text, $($name::$variant => $text),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                $crate::options::declare::named($name::ALL, $name::name, text)
            }
        }
    };
}
pub(super) use words;

/// The value of `all` with this name.
pub fn named<T: Copy>(all: &[T], name: impl Fn(T) -> &'static str, text: &str) -> Result<T, String> {
    let expected = || all.iter().map(|value| name(*value)).collect::<Vec<_>>().join(", ");
    let known = all.iter().copied().find(|value| name(*value) == text);
    known.ok_or_else(|| format!("'{text}' is unknown; expected one of {}", expected()))
}

/// The values that an option takes.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// One of these words, each with its line of the help.
    Words(&'static [(&'static str, &'static str)]),
    /// A whole number in this range, both ends included.
    Number(u64, u64),
    /// A length of time in this range, in ms. A number alone is in ms.
    Millis(u64, u64),
    /// The same. A number alone is in seconds.
    Time(u64, u64),
    /// A text that [`super::EngineOption::set`] accepts.
    Text,
}

/// The number of values that a command line may give for an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    One,
    /// A comma list, of which each value is measured.
    List,
}

/// The section of the help of `bench` that an option stands in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    Storage,
    Locks,
    Load,
    Occ,
    Balance,
}

impl Section {
    /// Its heading.
    pub const fn heading(self) -> &'static str {
        match self {
            Section::Storage => "Storage of designs on pages: all but occ (a comma list measures each value)",
            Section::Locks => "Locks and latches (a comma list measures each value)",
            Section::Load => "Load",
            Section::Occ => "Design occ (a comma list measures each value)",
            Section::Balance => "Balance of designs with owners of keys: logical, plp-*",
        }
    }
}

/// The designs that an option makes a difference to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Designs {
    All,
    Occ,
    /// Designs in which several workers latch a page.
    Latched,
    /// Designs on pages.
    Paged,
    /// Designs with a lock manager.
    Locking,
    /// Designs in which each worker owns keys.
    Owners,
}

impl Designs {
    /// In the order in which a command line is checked.
    pub const ALL: [Designs; 6] =
        [Designs::All, Designs::Occ, Designs::Latched, Designs::Paged, Designs::Locking, Designs::Owners];

    pub fn has(self, design: DesignKind) -> bool {
        match self {
            Designs::All => true,
            Designs::Occ => design.is_in_memory(),
            Designs::Latched => design.has_latches(),
            Designs::Paged => !design.is_in_memory(),
            Designs::Locking => design.has_locks(),
            Designs::Owners => design.owns_keys(),
        }
    }

    /// Why a run without any of these designs refuses the option.
    pub const fn otherwise(self) -> &'static str {
        match self {
            Designs::All => "no design has it",
            Designs::Occ => "only design occ has it; expected --design occ with it, or leave it out",
            Designs::Latched => {
                "designs serial and occ latch no page that another worker reads; expected another --design with it, or leave it \
                 out"
            }
            Designs::Paged => {
                "design occ has rows in main memory and no pages; expected another --design with it, or leave it out"
            }
            Designs::Locking => {
                "design occ validates and locks nothing; expected another --design with it, or leave it out"
            }
            Designs::Owners => {
                "only workers that own keys have anything to balance, with --balance on or advise; expected --design logical, \
                 plp-regular, plp-partition or plp-leaf"
            }
        }
    }
}

/// An option in the help of `atoll load`, for options that shape the data.
#[derive(Clone, Copy, Debug)]
pub struct ForLoad {
    pub help: &'static str,
    /// The value if none is typed. `None`: another setting decides.
    pub default: Option<&'static str>,
}

/// Values cross a process boundary by name.
pub mod by_name {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::fmt::Display;
    use std::str::FromStr;

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T: Display, S: Serializer>(named: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(named)
    }

    /// # Errors
    /// A text that is no name.
    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
        String::deserialize(d)?.parse().map_err(D::Error::custom)
    }
}
