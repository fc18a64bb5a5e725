//! Programs and tables travel with each request, and are the same each time. Their encoded form is
//! kept by the sender, and their decoded form by the receiver: each is made once.
//!
//! ```text
//!   Arc<Program> --address--> bytes, kept         serialize: copies the bytes
//!   bytes --equal bytes--> Arc<Program>, kept     deserialize: counts a reference
//! ```
//!
//! The bytes are all that counts: a receiver that does not know them decodes them. So there is
//! nothing to agree on between the two ends, and no version that could be the wrong one. What hangs
//! on a value, as the layout of a table's rows does, is made once too.
//!
//! Use: `#[serde(with = "crate::kept")]` on a field of the type `Arc<T>`.
//!
//! # Access rules
//!
//! Each thread keeps its own values, and no reference to them leaves it but counted ones. A value
//! that is kept by its address is held, so no other value gets that address meanwhile.

use foldhash::fast::RandomState;
use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::ser::{Error as _, Serialize, Serializer};
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

/// Values of each of the two generations.
const MOST: usize = 512;
/// The longest encoding that is kept, in bytes: inserts of many rows are not seen again.
const LONGEST: usize = 16 << 10;

/// The values that were used last. New ones, and old ones that are used again, are young; when
/// there are too many of them they are old, and those that were old before are forgotten.
///
/// The hash has a key of its own in each process, so that no client can choose statements that meet
/// in one place of the table.
struct Recent<K, V> {
    young: HashMap<K, V, RandomState>,
    old: HashMap<K, V, RandomState>,
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    fn new() -> Recent<K, V> {
        Recent { young: HashMap::default(), old: HashMap::default() }
    }

    fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.put(key, value.clone());
        Some(value)
    }

    fn put(&mut self, key: K, value: V) {
        if self.young.len() >= MOST {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
    }
}

/// A value of any type, and its encoding.
type Encoded = (Arc<dyn Any + Send + Sync>, Arc<[u8]>);
/// The decoded values of all types, by type and bytes.
type Decoded = HashMap<TypeId, Recent<Box<[u8]>, Arc<dyn Any + Send + Sync>>, RandomState>;

thread_local! {
    static ENCODED: RefCell<Recent<usize, Encoded>> = RefCell::new(Recent::new());
    static DECODED: RefCell<Decoded> = RefCell::new(HashMap::default());
}

/// # Errors
/// Those of the serializer.
pub fn serialize<T, S>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Serialize + Send + Sync + 'static,
    S: Serializer,
{
    let address = Arc::as_ptr(value).addr();
    if let Some((_, bytes)) = ENCODED.with_borrow_mut(|encoded| encoded.get(&address)) {
        return serializer.serialize_bytes(&bytes);
    }
    // Values within this one are kept too, so nothing is borrowed meanwhile.
    let bytes = postcard::to_stdvec(&**value).map_err(S::Error::custom)?;
    if bytes.len() <= LONGEST {
        let value: Arc<dyn Any + Send + Sync> = Arc::clone(value) as _;
        ENCODED.with_borrow_mut(|encoded| encoded.put(address, (value, bytes.as_slice().into())));
    }
    serializer.serialize_bytes(&bytes)
}

/// # Errors
/// Those of the deserializer.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Arc<T>, D::Error>
where
    T: DeserializeOwned + Send + Sync + 'static,
    D: Deserializer<'de>,
{
    deserializer.deserialize_bytes(Bytes(PhantomData))
}

struct Bytes<T>(PhantomData<T>);

impl<T: DeserializeOwned + Send + Sync + 'static> Visitor<'_> for Bytes<T> {
    type Value = Arc<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the encoding of a program or a table")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Arc<T>, E> {
        let kind = TypeId::of::<T>();
        let known = DECODED.with_borrow_mut(|decoded| decoded.get_mut(&kind)?.get(bytes));
        if let Some(known) = known.and_then(|known| known.downcast::<T>().ok()) {
            return Ok(known);
        }
        let value: Arc<T> = match postcard::take_from_bytes(bytes) {
            Ok((value, [])) => Arc::new(value),
            _ => return Err(E::custom("bytes that are no program or table of this version")),
        };
        if bytes.len() <= LONGEST {
            DECODED.with_borrow_mut(|decoded| {
                let kept: Arc<dyn Any + Send + Sync> = Arc::clone(&value) as _;
                decoded.entry(kind).or_insert_with(Recent::new).put(bytes.into(), kept);
            });
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};
    use std::sync::Arc;

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Inner(Vec<u32>);

    #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
    struct Outer {
        name: String,
        #[serde(with = "super")]
        inner: Arc<Inner>,
    }

    #[derive(PartialEq, Debug, Serialize, Deserialize)]
    struct Request {
        #[serde(with = "super")]
        outer: Arc<Outer>,
        param: u32,
    }

    fn request(name: &str, param: u32, inner: &Arc<Inner>) -> Request {
        Request { outer: Arc::new(Outer { name: name.into(), inner: Arc::clone(inner) }), param }
    }

    fn sent(request: &Request) -> Request {
        postcard::from_bytes(&postcard::to_stdvec(request).unwrap()).unwrap()
    }

    #[test]
    fn equal_values_are_decoded_once_and_different_ones_never_taken_for_each_other() {
        let inner = Arc::new(Inner(vec![1, 2, 300]));
        let first = sent(&request("a", 1, &inner));
        assert_eq!(first, request("a", 1, &inner));
        // Another value with the same content, at another address.
        let second = sent(&request("a", 2, &inner));
        assert!(Arc::ptr_eq(&first.outer, &second.outer));
        assert_eq!(second.param, 2);
        let other = sent(&request("b", 1, &inner));
        assert_eq!(other, request("b", 1, &inner));
        // What both of them hold is the same value.
        assert!(Arc::ptr_eq(&first.outer.inner, &other.outer.inner));
        assert_ne!(first.outer, other.outer);
    }

    #[test]
    fn more_values_than_are_kept_are_all_carried() {
        let inner = Arc::new(Inner(vec![7]));
        let hot = request("hot", 0, &inner);
        let known = sent(&hot).outer;
        for i in 0..5 * super::MOST {
            let name = format!("program {i}");
            assert_eq!(sent(&request(&name, 1, &inner)).outer.name, name);
            // One that is used all the time stays.
            assert!(Arc::ptr_eq(&sent(&hot).outer, &known));
        }
        let long = request(&"x".repeat(2 * super::LONGEST), 0, &inner);
        assert_eq!(sent(&long), long);
    }

    #[test]
    fn bytes_that_are_no_value_are_refused() {
        let inner = Arc::new(Inner(vec![1]));
        let mut bytes = postcard::to_stdvec(&request("a", 1, &inner)).unwrap();
        for cut in 0..bytes.len() {
            assert!(postcard::from_bytes::<Request>(&bytes[..cut]).is_err());
        }
        // One byte more within the encoding of the outer value.
        bytes[0] += 1;
        assert!(postcard::from_bytes::<Request>(&bytes).is_err());
    }
}
