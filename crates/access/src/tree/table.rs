//! The partition table of a multi-rooted tree: the start key and root of each sub-tree, in pages
//! (Pandis' thesis, section 3.3.1).
//!
//! ```text
//! 0        pages' own header                                        HEADER
//! +0       next page u32 | count u16 | (root u32, key length u16, key)...
//! ```
//!
//! The first page is the tree's root in the catalog and keeps its number; when it is full, another
//! page is chained after it. Entries ascend, also along the chain; the first key of all is empty. A
//! page is rewritten whole when it changes, that is, when partitions are split or merged. Normal
//! work does not read these pages: their content is also in memory ([`super::RootMap`]).

use super::roots::Start;
use crate::bytes::{Bytes, Cursor, Garbled, push_sized};
use crate::page::{KIND_PARTITIONS, corrupt, is};
use base::{Key, PageId, TableId};
use latch::LatchPolicy;
use pages::{PAGE_HEADER, PAGE_SIZE, Page, PageMut, Pool, Stop};

/// The bytes of a page for entries.
const ROOM: usize = PAGE_SIZE - PAGE_HEADER - FRONT;
/// Next page and count.
const FRONT: usize = 6;
/// The most pages of a chain: a longer one leads back to itself.
const LONGEST: usize = 1 << 12;

/// The content of one page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TablePage {
    pub page: PageId,
    pub starts: Vec<Start>,
}

fn size(start: &Start) -> usize {
    6 + start.0.len()
}

impl TablePage {
    fn bytes(&self) -> usize {
        self.starts.iter().map(size).sum()
    }

    /// The page in the form of the log record.
    pub fn image(&self, next: PageId) -> Vec<u8> {
        let mut out = next.0.to_le_bytes().to_vec();
        out.extend((self.starts.len() as u16).to_le_bytes());
        for (key, root) in &self.starts {
            out.extend(root.0.to_le_bytes());
            push_sized(&mut out, key);
        }
        out
    }
}

/// Replaces the page's content by this image.
pub(crate) fn format(bytes: &mut Bytes, image: &[u8]) -> Result<(), Garbled> {
    let (content, rest) = bytes[PAGE_HEADER..].split_at_mut_checked(image.len()).ok_or(Garbled)?;
    content.copy_from_slice(image);
    rest.fill(0);
    Ok(())
}

/// The number of the next page of the chain (0 after the last page), and the entries.
pub(crate) fn read(page: &Page) -> Result<(PageId, Vec<Start>), Garbled> {
    let mut from = Cursor(&page.bytes()[PAGE_HEADER..]);
    let (next, count) = (PageId(from.u32()?), from.u16()?);
    let mut starts: Vec<Start> = Vec::new();
    for _ in 0..count {
        let root = PageId(from.u32()?);
        let key = Key::from_bytes(from.sized()?);
        if starts.last().is_some_and(|(before, _)| *before >= key) || root == PageId(0) {
            return Err(Garbled);
        }
        starts.push((key, root));
    }
    Ok((next, starts))
}

/// All pages of the table that begins at `first`, latched exclusively, and their content.
pub(crate) fn held<'p, L: LatchPolicy>(
    pool: &'p Pool,
    owner: TableId,
    first: PageId,
) -> Result<(Vec<PageMut<'p, L>>, Vec<TablePage>), Stop> {
    let (mut pages, mut parts): (Vec<PageMut<'p, L>>, Vec<TablePage>) = (Vec::new(), Vec::new());
    let mut next = first;
    while next != PageId(0) && pages.iter().all(|held| held.page_id() != next) {
        let page = pool.exclusive::<L>(next)?;
        let (behind, starts) = checked(&page, owner, parts.last()).map_err(|Garbled| corrupt(&page))?;
        parts.push(TablePage { page: next, starts });
        pages.push(page);
        next = behind;
    }
    match pages.last() {
        // A chain that leads back to itself.
        Some(last) if next != PageId(0) => Err(corrupt(last)),
        _ => Ok((pages, parts)),
    }
}

/// All sub-trees of the table that begins at `first`, and the pages of the table.
///
/// # Errors
/// [`Stop`]; [`Stop::Fault`] when it is not a table of this tree.
pub(crate) fn starts_of<L: LatchPolicy>(
    pool: &Pool,
    owner: TableId,
    first: PageId,
) -> Result<(Vec<Start>, Vec<PageId>), Stop> {
    let (mut parts, mut pages, mut next) = (Vec::<TablePage>::new(), Vec::new(), first);
    while next != PageId(0) {
        let page = pool.shared::<L>(next)?;
        let (behind, starts) = checked(&page, owner, parts.last()).map_err(|Garbled| corrupt(&page))?;
        if pages.contains(&next) || pages.len() == LONGEST {
            return Err(corrupt(&page));
        }
        parts.push(TablePage { page: next, starts });
        pages.push(next);
        next = behind;
    }
    Ok((parts.into_iter().flat_map(|part| part.starts).collect(), pages))
}

/// The content of the page, after a check that it follows the content of the page before it.
fn checked(page: &Page, owner: TableId, before: Option<&TablePage>) -> Result<(PageId, Vec<Start>), Garbled> {
    if !is(page, KIND_PARTITIONS, owner) {
        return Err(Garbled);
    }
    let (next, starts) = read(page)?;
    let first = starts.first().map(|(key, _)| key).ok_or(Garbled)?;
    let follows = match before {
        None => first.is_empty(),
        Some(part) => part.starts.last().is_some_and(|(last, _)| last < first),
    };
    if follows { Ok((next, starts)) } else { Err(Garbled) }
}

/// A change of the table: the pages to rewrite, and the page to free.
pub(crate) struct Rewrite {
    /// The parts after the change, each with a flag whether it has changed.
    pub parts: Vec<(TablePage, bool)>,
    pub freed: Option<PageId>,
}

/// The table with one more sub-tree. `spare` allocates a page if the table has to grow by one.
pub(crate) fn with(
    parts: Vec<TablePage>,
    start: Start,
    fill: usize,
    spare: impl FnOnce() -> Result<PageId, Stop>,
) -> Result<Rewrite, Stop> {
    let room = fill.min(ROOM);
    let at = parts
        .iter()
        .rposition(|part| part.starts.first().is_some_and(|(key, _)| *key <= start.0))
        .unwrap_or(0);
    let mut parts: Vec<(TablePage, bool)> = parts.into_iter().map(|part| (part, false)).collect();
    let (part, changed) = &mut parts[at];
    let place = part.starts.partition_point(|(key, _)| *key < start.0);
    part.starts.insert(place, start);
    *changed = true;
    if part.bytes() > room && part.starts.len() > 1 {
        let upper = part.starts.split_off(part.starts.len() / 2);
        let page = spare()?;
        parts.insert(at + 1, (TablePage { page, starts: upper }, true));
    }
    Ok(Rewrite { parts, freed: None })
}

/// The table without the sub-tree that begins at `key`. The one before it begins at `before` and
/// gets the root `root`.
pub(crate) fn without(parts: Vec<TablePage>, key: &[u8], (before, root): (&[u8], PageId)) -> Rewrite {
    let mut parts: Vec<(TablePage, bool)> = parts.into_iter().map(|part| (part, false)).collect();
    for (part, changed) in &mut parts {
        let count = part.starts.len();
        part.starts.retain(|(start, _)| start.as_slice() != key);
        *changed |= part.starts.len() != count;
        for (start, now) in &mut part.starts {
            if start.as_slice() == before && *now != root {
                (*now, *changed) = (root, true);
            }
        }
    }
    let empty = parts.iter().position(|(part, _)| part.starts.is_empty());
    let freed = empty.map(|at| {
        // The first page holds the first sub-tree, which is never taken out. So there is a page
        // before this one, and its link changes.
        parts[at - 1].1 = true;
        parts.remove(at).0.page
    });
    Rewrite { parts, freed }
}

impl Rewrite {
    /// The images of the pages that change.
    pub fn images(&self) -> Vec<(PageId, Vec<u8>)> {
        let next = |i: usize| self.parts.get(i + 1).map_or(PageId(0), |(part, _)| part.page);
        let grown = |i: usize| self.parts.get(i + 1).is_some_and(|(_, changed)| *changed);
        let all = self.parts.iter().enumerate();
        all.filter(|(i, (_, changed))| *changed || grown(*i))
            .map(|(i, (part, _))| (part.page, part.image(next(i))))
            .collect()
    }

    pub fn starts(&self) -> Vec<Start> {
        self.parts.iter().flat_map(|(part, _)| part.starts.iter().cloned()).collect()
    }
}
