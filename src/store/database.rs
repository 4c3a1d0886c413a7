//! A SQLite file: opened privately, tuned, and known again by what it is rather than by its name.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

/// How long a connection waits for a lock that another one holds.
pub(crate) const BUSY: Duration = Duration::from_secs(2);

/// Why a database could not be opened or used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DatabaseError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Migration(#[from] rusqlite_migration::Error),
}

impl DatabaseError {
    /// Another connection holds the lock; the file itself is well.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Sqlite(error) if matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        ))
    }

    /// The file no longer holds what was written to it: emptied, overwritten, its tables dropped.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Self::Sqlite(error) if matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown)
        ))
    }

    /// What was to be written cannot be; the file itself is well.
    pub(crate) fn is_callers(&self) -> bool {
        match self {
            Self::Sqlite(rusqlite::Error::ToSqlConversionFailure(_)) => true,
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig)
            ),
            _ => false,
        }
    }
}

/// What a connection is for.
#[derive(Clone, Copy)]
pub(crate) struct Tuning {
    /// Bytes a page. Counts when the file is made and never after.
    pub(crate) page_size: u32,
    /// The most memory its page cache takes, in KiB.
    pub(crate) cache_kib: u32,
    /// Pages the write-ahead log may hold before a commit copies them into the file.
    pub(crate) checkpoint_pages: u32,
}

/// An open database file.
pub(crate) struct Database {
    pub(crate) connection: Connection,
    path: PathBuf,
    /// The files as they were opened; none for a database in memory.
    place: Option<Place>,
}

impl Database {
    /// Opens the file at `path`, and makes it (0600, and its folder 0700) when it is missing.
    /// `schema` must leave a database that is complete already unchanged.
    pub(crate) fn open(
        path: &Path,
        tuning: Tuning,
        schema: impl FnOnce(&mut Connection) -> Result<(), DatabaseError>,
    ) -> Result<Self, DatabaseError> {
        make_private(path)?;
        let mut connection = connect(path)?;
        connection.pragma_update(None, "page_size", tuning.page_size)?;
        // A connection that still works in the old journal mode works, only slower, so another
        // host that holds the file at this moment is no reason to fail.
        let _ = connection.pragma_update(None, "journal_mode", "wal");
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "cache_size", -i64::from(tuning.cache_kib))?;
        connection.pragma_update(None, "wal_autocheckpoint", tuning.checkpoint_pages)?;
        schema(&mut connection)?;
        Ok(Self {
            connection,
            path: path.into(),
            place: Some(Place::of(path)),
        })
    }

    /// Opens a second connection to a file that `open` has prepared, for reading only.
    pub(crate) fn read_only(path: &Path, cache_kib: u32) -> Result<Self, DatabaseError> {
        let connection = connect(path)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "cache_size", -i64::from(cache_kib))?;
        // The log's files exist once something was read, and they are part of the place.
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(Self {
            connection,
            path: path.into(),
            place: Some(Place::of(path)),
        })
    }

    /// A database that ends with its connection.
    pub(crate) fn memory(
        schema: impl FnOnce(&mut Connection) -> Result<(), DatabaseError>,
    ) -> Result<Self, DatabaseError> {
        let mut connection = Connection::open_in_memory()?;
        schema(&mut connection)?;
        Ok(Self {
            connection,
            path: PathBuf::from(":memory:"),
            place: None,
        })
    }

    /// Whether the path leads to other files than the ones that are open: deleted, replaced,
    /// emptied. What this connection would write then is lost with it.
    pub(crate) fn moved(&self) -> bool {
        self.place
            .as_ref()
            .is_some_and(|place| !place.holds(&Place::of(&self.path)))
    }

    /// Whether there is a file to open again.
    pub(crate) const fn is_file(&self) -> bool {
        self.place.is_some()
    }

    /// Puts a copy of this database where the path leads to nothing, to an empty file or to this
    /// file without its log. Another database that has come there stays.
    pub(crate) fn restore(&self) -> Result<(), DatabaseError> {
        let Some(opened) = &self.place else {
            return Ok(());
        };
        let found = Place::of(&self.path);
        if found.database != opened.database && !found.empty {
            self.remove_stale_log();
            return Ok(());
        }
        if fs::metadata(&self.path).is_ok_and(|found| !found.is_file()) {
            return Err(not_a_file().into());
        }
        let copy = beside(&self.path, "-restored");
        let _ = fs::remove_file(&copy);
        make_private(&copy)?;
        self.connection
            .execute("VACUUM INTO ?1", [copy.to_string_lossy()])?;
        fs::File::open(&copy)?.sync_all()?;
        let _ = fs::remove_file(beside(&self.path, "-wal"));
        let _ = fs::remove_file(beside(&self.path, "-shm"));
        Ok(fs::rename(&copy, &self.path)?)
    }

    /// Removes the write-ahead log of a database whose file has been replaced: SQLite would
    /// play it into the new file.
    pub(crate) fn remove_stale_log(&self) {
        let Some(opened) = &self.place else { return };
        let found = Place::of(&self.path);
        if found.database == opened.database {
            return;
        }
        for (suffix, opened, found) in [
            ("-wal", opened.wal, found.wal),
            ("-shm", opened.shm, found.shm),
        ] {
            if opened.is_some() && opened == found {
                let _ = fs::remove_file(beside(&self.path, suffix));
            }
        }
    }

    /// Copies the log into the file and closes it, unless the path has come to mean another file.
    pub(crate) fn close(self) {
        if !self.moved() {
            let _ = self
                .connection
                .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false);
        }
    }
}

fn connect(path: &Path) -> Result<Connection, DatabaseError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    // By default the last connection to close removes the log by its name, which by then may be
    // the name of another database's log.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Writes a page as it is, in a transaction that the caller commits. A lock alone is granted by a
/// disk that is full.
pub(crate) fn touch(connection: &Connection) -> rusqlite::Result<()> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    connection.pragma_update(None, "user_version", version)
}

/// Makes sure that `path` is a file that only its owner may read.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        fs::DirBuilder::new().recursive(true).create(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    }
    // An existing file is not opened for this: closing it again would drop the locks that this
    // process's SQLite connections hold on it.
    match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
    {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(not_a_file());
    }
    if metadata.permissions().mode() & 0o777 != 0o600 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

fn not_a_file() -> io::Error {
    io::Error::other("not a file")
}

/// `path` with `suffix` behind its last letter.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Which files a path and its companions lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    database: Option<FileId>,
    empty: bool,
    wal: Option<FileId>,
    shm: Option<FileId>,
}

/// A file's device and inode.
type FileId = (u64, u64);

impl Place {
    fn of(path: &Path) -> Self {
        let metadata = |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_file);
        let id = |file: &fs::Metadata| (file.dev(), file.ino());
        let database = metadata(path);
        Self {
            empty: database.as_ref().is_none_or(|file| file.len() == 0),
            database: database.as_ref().map(id),
            wal: metadata(&beside(path, "-wal")).as_ref().map(id),
            shm: metadata(&beside(path, "-shm")).as_ref().map(id),
        }
    }

    /// Whether `now` has all that was there when this was taken.
    fn holds(&self, now: &Self) -> bool {
        let kept = |then: Option<FileId>, now| then.is_none() || then == now;
        self.database == now.database
            && (self.empty || !now.empty)
            && kept(self.wal, now.wal)
            && kept(self.shm, now.shm)
    }
}
