//! Prepared statements and portals by their names.

use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Values by name. The unnamed one, which most clients use, has the empty name and a place of its
/// own.
pub(super) struct Names<T> {
    unnamed: Option<T>,
    named: HashMap<String, T, RandomState>,
}

impl<T> Default for Names<T> {
    fn default() -> Names<T> {
        Names { unnamed: None, named: HashMap::default() }
    }
}

impl<T> Names<T> {
    pub fn get(&self, name: &str) -> Option<&T> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn insert(&mut self, name: &str, value: T) {
        if name.is_empty() {
            self.unnamed = Some(value);
        } else {
            self.named.insert(name.to_owned(), value);
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<T> {
        if name.is_empty() { self.unnamed.take() } else { self.named.remove(name) }
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.unnamed.iter().chain(self.named.values())
    }

    pub fn len(&self) -> usize {
        self.named.len() + usize::from(self.unnamed.is_some())
    }

    pub fn clear(&mut self) {
        self.unnamed = None;
        if !self.named.is_empty() {
            self.named.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unnamed_value_is_one_of_all() {
        let mut names = Names::default();
        names.insert("", 1);
        names.insert("a", 2);
        names.insert("", 3);
        assert_eq!(
            (names.get(""), names.get("a"), names.get("b"), names.len()),
            (Some(&3), Some(&2), None, 2)
        );
        assert!(names.contains("") && !names.contains("b"));
        assert_eq!((names.remove(""), names.remove(""), names.len()), (Some(3), None, 1));
        names.insert("", 4);
        names.clear();
        assert_eq!((names.get(""), names.get("a"), names.len()), (None, None, 0));
    }
}
