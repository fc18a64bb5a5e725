//! The bodies of the log records that this crate writes, byte by byte.
//!
//! ```text
//! tree insert, delete      page u32 | owner u16 | key length u16 | value length u16 | key | value
//! tree replace             page u32 | owner u16 | key length u16 | old length u16 | key
//!                          | old | new
//! tree update              page u32 | owner u16 | key length u16 | old length u16 | at u16 | key
//!                          | old bytes | new bytes
//! heap insert              page u32 | owner u16 | slot u16 | row
//! heap update              page u32 | owner u16 | slot u16 | at u16 | old length u16 | old bytes
//!                          | new bytes
//! heap delete, restore     page u32 | owner u16 | slot u16
//! heap remove              page u32 | owner u16 | slot u16 | pages freed u32, u32, ...
//! heap place               page u32 | owner u16 | slot u16 | content with its tag
//! heap replace             page u32 | owner u16 | slot u16 | forms u8 | old length u16
//!                          | old content | new content
//! large make               root u32 | owner u16 | 0 u16 | row length u32
//!                          | data pages u32, u32, ...
//! system                   owner u16 | action, action, ...
//!      action              tag u8 | page u32 | length u16 | payload
//! ```
//!
//! A *system* record carries one whole structure modification, with an action for each page that it
//! changes. It is one record, so the modification is atomic and needs no undo. All numbers are
//! little-endian.

use crate::bytes::{Cursor, Garbled};
use crate::heap::Form;
use base::{PageId, TableId};

/// The kinds of this crate's log records. The numbers are stored in the log; `store` must use other
/// numbers for its own records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    TreeInsert = 1,
    TreeDelete = 2,
    /// The value of an entry was replaced.
    TreeReplace = 3,
    HeapInsert = 4,
    HeapUpdate = 5,
    /// The row became a ghost: deleted, but its slot and bytes stay.
    HeapDelete = 6,
    /// A ghost became a row again.
    HeapRestore = 7,
    /// The slot became free: a ghost was purged, or an insert undone. The pages of a large row that
    /// the record lists became free with it.
    HeapRemove = 8,
    /// A structure modification or a change of a free-space class: redo only.
    System = 9,
    /// A free slot got a content that is not a plain row.
    HeapPlace = 20,
    /// A slot in use got another content: a row became a forward or a large row's stub, or the
    /// reverse.
    HeapReplace = 21,
    /// Pages were taken for a large row; later records write their content.
    LargeMake = 22,
    /// A range of bytes of an entry's value changed.
    TreeUpdate = 23,
}

impl Kind {
    /// Record kinds up to this number belong to this crate; `store` numbers its own from the next
    /// one.
    pub const LAST: u8 = 31;

    /// `None` for a kind that this crate does not write.
    #[inline]
    pub fn of(kind: u8) -> Option<Kind> {
        Some(match kind {
            1 => Kind::TreeInsert,
            2 => Kind::TreeDelete,
            3 => Kind::TreeReplace,
            4 => Kind::HeapInsert,
            5 => Kind::HeapUpdate,
            6 => Kind::HeapDelete,
            7 => Kind::HeapRestore,
            8 => Kind::HeapRemove,
            9 => Kind::System,
            20 => Kind::HeapPlace,
            21 => Kind::HeapReplace,
            22 => Kind::LargeMake,
            23 => Kind::TreeUpdate,
            _ => return None,
        })
    }
}

/// A decoded record.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Record<'a> {
    /// A change to one page.
    One {
        page: PageId,
        owner: TableId,
        change: Change<'a>,
    },
    System {
        owner: TableId,
        actions: Actions<'a>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    TreeInsert { key: &'a [u8], value: &'a [u8] },
    TreeDelete { key: &'a [u8], value: &'a [u8] },
    TreeReplace { key: &'a [u8], old: &'a [u8], new: &'a [u8] },
    TreeUpdate { key: &'a [u8], at: usize, old: &'a [u8], new: &'a [u8] },
    HeapInsert { slot: u16, row: &'a [u8] },
    HeapUpdate { slot: u16, at: usize, old: &'a [u8], new: &'a [u8] },
    HeapDelete { slot: u16 },
    HeapRestore { slot: u16 },
    HeapRemove { slot: u16, freed: PageList<'a> },
    HeapPlace { slot: u16, content: &'a [u8] },
    HeapReplace { slot: u16, old: (Form, &'a [u8]), new: (Form, &'a [u8]) },
    LargeMake { length: u32, pages: PageList<'a> },
}

impl Change<'_> {
    /// Whether this changes a tree's entry; otherwise it changes a heap's row.
    pub(crate) fn is_of_tree(&self) -> bool {
        use Change::{TreeDelete, TreeInsert, TreeReplace, TreeUpdate};
        matches!(self, TreeInsert { .. } | TreeDelete { .. } | TreeReplace { .. } | TreeUpdate { .. })
    }
}

/// A list of page numbers in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageList<'a>(&'a [[u8; 4]]);

impl<'a> PageList<'a> {
    fn decode(from: Cursor<'a>) -> Result<PageList<'a>, Garbled> {
        match from.rest().as_chunks::<4>() {
            (pages, []) => Ok(PageList(pages)),
            _ => Err(Garbled),
        }
    }

    pub(crate) fn iter(self) -> impl ExactSizeIterator<Item = PageId> + 'a {
        self.0.iter().map(|page| PageId(u32::from_le_bytes(*page)))
    }
}

impl<'a> Record<'a> {
    #[inline]
    pub(crate) fn decode(kind: u8, body: &'a [u8]) -> Result<Record<'a>, Garbled> {
        let kind = Kind::of(kind).ok_or(Garbled)?;
        let mut from = Cursor(body);
        if kind == Kind::System {
            return Ok(Record::System { owner: TableId(from.u16()?), actions: Actions(from) });
        }
        let (page, owner) = (PageId(from.u32()?), TableId(from.u16()?));
        Ok(Record::One { page, owner, change: Change::decode(kind, from)? })
    }
}

impl<'a> Change<'a> {
    fn decode(kind: Kind, mut from: Cursor<'a>) -> Result<Change<'a>, Garbled> {
        Ok(match kind {
            Kind::TreeInsert | Kind::TreeDelete => {
                let (key, value) = (from.u16()?, from.u16()?);
                let (key, value) = (from.take(key.into())?, from.take(value.into())?);
                match kind {
                    Kind::TreeInsert => Change::TreeInsert { key, value },
                    _ => Change::TreeDelete { key, value },
                }
            }
            Kind::TreeReplace => {
                let (key, old) = (from.u16()?, from.u16()?);
                let (key, old) = (from.take(key.into())?, from.take(old.into())?);
                Change::TreeReplace { key, old, new: from.rest() }
            }
            Kind::TreeUpdate => {
                let (key, old, at) = (from.u16()?, from.u16()?, from.u16()?);
                let (key, old) = (from.take(key.into())?, from.take(old.into())?);
                Change::TreeUpdate { key, at: at.into(), old, new: from.rest() }
            }
            Kind::HeapInsert => Change::HeapInsert { slot: from.u16()?, row: from.rest() },
            Kind::HeapUpdate => {
                let (slot, at, old) = (from.u16()?, from.u16()?, from.sized()?);
                Change::HeapUpdate { slot, at: at.into(), old, new: from.rest() }
            }
            Kind::HeapDelete => Change::HeapDelete { slot: from.u16()? },
            Kind::HeapRestore => Change::HeapRestore { slot: from.u16()? },
            Kind::HeapRemove => Change::HeapRemove { slot: from.u16()?, freed: PageList::decode(from)? },
            Kind::HeapPlace => Change::HeapPlace { slot: from.u16()?, content: from.rest() },
            Kind::HeapReplace => {
                let (slot, forms, old) = (from.u16()?, from.u8()?, from.sized()?);
                let form = |bit| if forms & bit == 0 { Form::Plain } else { Form::Special };
                Change::HeapReplace { slot, old: (form(1), old), new: (form(2), from.rest()) }
            }
            Kind::LargeMake => {
                let (_, length) = (from.u16()?, from.u32()?);
                Change::LargeMake { length, pages: PageList::decode(from)? }
            }
            Kind::System => return Err(Garbled),
        })
    }
}

/// The index and the key of a record about one index entry; `None` for other records.
pub fn entry_of(kind: u8, body: &[u8]) -> Option<(TableId, &[u8])> {
    match Record::decode(kind, body).ok()? {
        Record::One {
            owner,
            change:
                Change::TreeInsert { key, .. }
                | Change::TreeDelete { key, .. }
                | Change::TreeReplace { key, .. }
                | Change::TreeUpdate { key, .. },
            ..
        } => Some((owner, key)),
        _ => None,
    }
}

/// The first fields of a tree record for one entry. `value` is the value that comes first in the
/// record; its length is stored here.
#[inline]
pub(crate) fn entry_front(page: PageId, owner: TableId, key: &[u8], value: &[u8]) -> [u8; 10] {
    let [a, b, c, d] = page.0.to_le_bytes();
    let [e, f] = owner.0.to_le_bytes();
    let [g, h] = (key.len() as u16).to_le_bytes();
    let [i, j] = (value.len() as u16).to_le_bytes();
    [a, b, c, d, e, f, g, h, i, j]
}

/// The first fields of a heap record.
pub(crate) fn slot_front(page: PageId, owner: TableId, slot: u16) -> [u8; 8] {
    let [a, b, c, d] = page.0.to_le_bytes();
    let [e, f] = owner.0.to_le_bytes();
    let [g, h] = slot.to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

/// The first fields of an update of a row: [`slot_front`] and [`range_front`].
#[inline]
pub(crate) fn update_front(page: PageId, owner: TableId, slot: u16, at: usize, old: usize) -> [u8; 12] {
    let whole = u128::from(page.0)
        | u128::from(owner.0) << 32
        | u128::from(slot) << 48
        | u128::from(at as u16) << 64
        | u128::from(old as u16) << 80;
    *whole.to_le_bytes().first_chunk().expect("twelve of sixteen")
}

/// The fields after [`slot_front`] in an update: the start of the changed bytes, and the number of
/// old bytes.
pub(crate) fn range_front(at: usize, old: usize) -> [u8; 4] {
    let [a, b] = (at as u16).to_le_bytes();
    let [c, d] = (old as u16).to_le_bytes();
    [a, b, c, d]
}

/// The fields after [`slot_front`] in a replacement: the forms and the length of the old content.
pub(crate) fn replace_front(old: (Form, usize), new: Form) -> [u8; 3] {
    let forms = u8::from(old.0 == Form::Special) | u8::from(new == Form::Special) << 1;
    let [a, b] = (old.1 as u16).to_le_bytes();
    [forms, a, b]
}

/// The part of a structure modification that concerns one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action<'a> {
    /// The page becomes the tree node packed here.
    Node(&'a [u8]),
    /// The entries from this key on are removed, and the key becomes the high fence.
    Cut(&'a [u8]),
    /// An inner node gains a child; its range begins at this key.
    Link { child: PageId, key: &'a [u8] },
    /// An inner node loses the child that begins at this key.
    Unlink { key: &'a [u8] },
    /// The child that began at `old` begins at `new`.
    Relink { old: &'a [u8], new: &'a [u8] },
    /// The page goes back to the free list; its bytes stay as they are.
    Freed,
    /// The page becomes an empty heap root.
    HeapRoot,
    /// The page becomes an empty heap directory.
    HeapDirectory,
    /// The page becomes an empty heap page, number `ordinal` of its heap.
    HeapPage { ordinal: u32 },
    /// The heap root lists one more directory.
    RootAdd { directory: PageId },
    /// The directory lists one more heap page.
    DirectoryAdd { page: PageId, class: u8 },
    /// The directory notes the free-space class of its page number `index`.
    Class { index: u16, class: u8 },
    /// The page holds these bytes of the large row that begins at `root`, as its page number
    /// `index`.
    LargeData { root: PageId, index: u16, bytes: &'a [u8] },
    /// The root page of a large row holds the row's first bytes.
    LargeHead(&'a [u8]),
    /// The page becomes a page of a partition table, with this content.
    Partitions(&'a [u8]),
    /// The page becomes heap page number `ordinal`, with these rows: `head` is header fields and
    /// slots, `content` the bytes of the rows.
    HeapImage { ordinal: u32, head: &'a [u8], content: &'a [u8] },
}

impl<'a> Action<'a> {
    fn tag(self) -> u8 {
        match self {
            Action::Node(_) => 1,
            Action::Cut(_) => 2,
            Action::Link { .. } => 3,
            Action::Unlink { .. } => 4,
            Action::Relink { .. } => 5,
            Action::Freed => 6,
            Action::HeapRoot => 7,
            Action::HeapDirectory => 8,
            Action::HeapPage { .. } => 9,
            Action::RootAdd { .. } => 10,
            Action::DirectoryAdd { .. } => 11,
            Action::Class { .. } => 12,
            Action::LargeData { .. } => 20,
            Action::LargeHead(_) => 21,
            Action::HeapImage { .. } => 22,
            Action::Partitions(_) => 23,
        }
    }

    fn decode(tag: u8, payload: &'a [u8]) -> Result<Action<'a>, Garbled> {
        let mut from = Cursor(payload);
        Ok(match tag {
            1 => Action::Node(payload),
            2 => Action::Cut(payload),
            3 => Action::Link { child: PageId(from.u32()?), key: from.rest() },
            4 => Action::Unlink { key: payload },
            5 => Action::Relink { old: from.sized()?, new: from.rest() },
            6 => Action::Freed,
            7 => Action::HeapRoot,
            8 => Action::HeapDirectory,
            9 => Action::HeapPage { ordinal: from.u32()? },
            10 => Action::RootAdd { directory: PageId(from.u32()?) },
            11 => Action::DirectoryAdd { page: PageId(from.u32()?), class: from.u8()? },
            12 => Action::Class { index: from.u16()?, class: from.u8()? },
            20 => Action::LargeData { root: PageId(from.u32()?), index: from.u16()?, bytes: from.rest() },
            21 => Action::LargeHead(payload),
            22 => Action::HeapImage { ordinal: from.u32()?, head: from.sized()?, content: from.rest() },
            23 => Action::Partitions(payload),
            _ => return Err(Garbled),
        })
    }

    fn encode(self, out: &mut Vec<u8>) {
        match self {
            Action::Node(bytes)
            | Action::Cut(bytes)
            | Action::Unlink { key: bytes }
            | Action::Partitions(bytes)
            | Action::LargeHead(bytes) => out.extend(bytes),
            Action::HeapImage { ordinal, head, content } => {
                out.extend(ordinal.to_le_bytes());
                crate::bytes::push_sized(out, head);
                out.extend(content);
            }
            Action::LargeData { root, index, bytes } => {
                out.extend(root.0.to_le_bytes());
                out.extend(index.to_le_bytes());
                out.extend(bytes);
            }
            Action::Link { child, key } => {
                out.extend(child.0.to_le_bytes());
                out.extend(key);
            }
            Action::Relink { old, new } => {
                crate::bytes::push_sized(out, old);
                out.extend(new);
            }
            Action::Freed | Action::HeapRoot | Action::HeapDirectory => {}
            Action::HeapPage { ordinal } => out.extend(ordinal.to_le_bytes()),
            Action::RootAdd { directory } => out.extend(directory.0.to_le_bytes()),
            Action::DirectoryAdd { page, class } => {
                out.extend(page.0.to_le_bytes());
                out.push(class);
            }
            Action::Class { index, class } => {
                out.extend(index.to_le_bytes());
                out.push(class);
            }
        }
    }

    /// Whether the action replaces the page's former content whole.
    pub(crate) fn formats(self) -> bool {
        matches!(
            self,
            Action::Node(_)
                | Action::Partitions(_)
                | Action::HeapRoot
                | Action::HeapDirectory
                | Action::HeapPage { .. }
                | Action::HeapImage { .. }
                | Action::LargeData { .. }
        )
    }
}

/// The actions of a system record. The iterator ends at the end of the body or after the first
/// malformed action.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Actions<'a>(Cursor<'a>);

impl<'a> Actions<'a> {
    fn one(&mut self) -> Result<(PageId, Action<'a>), Garbled> {
        let (tag, page) = (self.0.u8()?, self.0.u32()?);
        Ok((PageId(page), Action::decode(tag, self.0.sized()?)?))
    }
}

impl<'a> Iterator for Actions<'a> {
    type Item = Result<(PageId, Action<'a>), Garbled>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let one = self.one();
        if one.is_err() {
            self.0 = Cursor(&[]);
        }
        Some(one)
    }
}

/// Builds a system record's body.
pub(crate) struct SystemBody(Vec<u8>);

impl SystemBody {
    pub(crate) fn new(owner: TableId) -> SystemBody {
        SystemBody(owner.0.to_le_bytes().to_vec())
    }

    #[must_use]
    pub(crate) fn with(mut self, page: PageId, action: Action<'_>) -> SystemBody {
        self.0.push(action.tag());
        self.0.extend(page.0.to_le_bytes());
        let length = self.0.len();
        self.0.extend([0, 0]);
        action.encode(&mut self.0);
        let payload = self.0.len() - length - 2;
        debug_assert!(payload <= usize::from(u16::MAX));
        self.0[length..length + 2].copy_from_slice(&(payload as u16).to_le_bytes());
        self
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

/// How a record uses a page; for the page allocator and for a table of dirty pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageUse {
    /// Bytes of a page in use change.
    Changed,
    /// The page gets a whole new content. From this record on it is in use.
    Formatted,
    /// The page is in use from this record on; another record gives it its content.
    Taken,
    /// The page is free from this record on; its bytes stay as they are.
    Freed,
    /// The page is free from this record on, and its bytes change: they mark it as gone.
    Emptied,
}

impl PageUse {
    /// Whether the record changes the page's bytes, so that redo must repeat it there.
    pub fn changes(self) -> bool {
        matches!(self, PageUse::Changed | PageUse::Formatted | PageUse::Emptied)
    }
}

/// Calls `visit` for each page that the record touches. `false` if the body is malformed or the
/// kind is not this crate's.
pub fn each_page(kind: u8, body: &[u8], mut visit: impl FnMut(PageId, PageUse)) -> bool {
    match Record::decode(kind, body) {
        Err(Garbled) => false,
        Ok(Record::One { page, change, .. }) => {
            match change {
                Change::LargeMake { pages, .. } => {
                    visit(page, PageUse::Formatted);
                    pages.iter().for_each(|page| visit(page, PageUse::Taken));
                }
                Change::HeapRemove { freed, .. } => {
                    // The record of a large row's removal lists the root page itself among the
                    // freed pages.
                    if freed.iter().all(|free| free != page) {
                        visit(page, PageUse::Changed);
                    }
                    let how = |free| if free == page { PageUse::Emptied } else { PageUse::Freed };
                    freed.iter().for_each(|free| visit(free, how(free)));
                }
                _ => visit(page, PageUse::Changed),
            }
            true
        }
        Ok(Record::System { actions, .. }) => {
            for action in actions {
                let Ok((page, action)) = action else { return false };
                visit(page, page_use(action));
            }
            true
        }
    }
}

fn page_use(action: Action<'_>) -> PageUse {
    match action {
        Action::Freed => PageUse::Freed,
        action if action.formats() => PageUse::Formatted,
        _ => PageUse::Changed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_body_reads_back() {
        let actions = [
            Action::Node(b"image"),
            Action::Cut(b"fence"),
            Action::Link { child: PageId(9), key: b"k" },
            Action::Unlink { key: b"" },
            Action::Relink { old: b"old", new: b"newer" },
            Action::Freed,
            Action::HeapRoot,
            Action::HeapDirectory,
            Action::HeapPage { ordinal: 7 },
            Action::RootAdd { directory: PageId(3) },
            Action::DirectoryAdd { page: PageId(4), class: 2 },
            Action::Class { index: 5, class: 8 },
            Action::LargeData { root: PageId(70), index: 3, bytes: b"some" },
            Action::LargeHead(b"first"),
            Action::HeapImage { ordinal: 3, head: b"slots", content: b"rows" },
        ];
        let mut body = SystemBody::new(TableId(6));
        for (i, action) in actions.into_iter().enumerate() {
            body = body.with(PageId(i as u32 + 1), action);
        }
        let Ok(Record::System { owner: TableId(6), actions: read }) =
            Record::decode(Kind::System as u8, body.as_slice())
        else {
            panic!("not a system record");
        };
        let read: Vec<_> = read.map(|a| a.expect("well formed")).collect();
        let wrote: Vec<_> = actions.into_iter().enumerate().map(|(i, a)| (PageId(i as u32 + 1), a)).collect();
        assert_eq!(read, wrote);

        let mut uses = Vec::new();
        assert!(each_page(Kind::System as u8, body.as_slice(), |page, u| uses.push((page.0, u))));
        assert_eq!(uses[5], (6, PageUse::Freed));
        assert_eq!(uses[8], (9, PageUse::Formatted));
        assert_eq!(
            uses[11..],
            [
                (12, PageUse::Changed),
                (13, PageUse::Formatted),
                (14, PageUse::Changed),
                (15, PageUse::Formatted)
            ]
        );
    }

    #[test]
    fn records_of_large_rows_say_which_pages_come_and_go() {
        let uses = |kind: Kind, body: &[&[u8]]| {
            let mut uses = Vec::new();
            each_page(kind as u8, &body.concat(), |page, u| uses.push((page.0, u))).then_some(uses)
        };
        let front = slot_front(PageId(4), TableId(1), 0);
        let pages = [5u32, 9].map(u32::to_le_bytes).concat();
        let made = uses(Kind::LargeMake, &[&front, &[0; 4], &pages]);
        assert_eq!(made, Some(vec![(4, PageUse::Formatted), (5, PageUse::Taken), (9, PageUse::Taken)]));
        let gone = uses(Kind::HeapRemove, &[&front, &4u32.to_le_bytes(), &pages]);
        assert_eq!(gone, Some(vec![(4, PageUse::Emptied), (5, PageUse::Freed), (9, PageUse::Freed)]));
        let stub = uses(Kind::HeapRemove, &[&front, &pages]);
        assert_eq!(stub.unwrap()[0], (4, PageUse::Changed));
        assert_eq!(uses(Kind::HeapRemove, &[&front, &pages[..7]]), None);
    }

    #[test]
    fn kinds_are_told_by_the_numbers_they_are_stored_as() {
        let known: Vec<u8> = (0..=u8::MAX).filter(|&n| Kind::of(n).is_some()).collect();
        assert!(known.iter().all(|&n| Kind::of(n).map(|kind| kind as u8) == Some(n)));
        assert_eq!(known, [1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21, 22, 23]);
        assert!(known.iter().all(|&n| n <= Kind::LAST));
    }

    #[test]
    fn a_cut_body_is_refused_everywhere() {
        let body = SystemBody::new(TableId(1)).with(PageId(1), Action::Relink { old: b"ab", new: b"c" });
        let whole = body.as_slice();
        for end in 3..whole.len() {
            assert!(!each_page(Kind::System as u8, &whole[..end], |_, _| {}), "cut at {end}");
        }
        assert!(each_page(Kind::System as u8, whole, |_, _| {}));
        assert!(!each_page(200, whole, |_, _| {}), "a kind of another room");
    }
}
