//! Object stores by URL: S3 and compatible stores, Google Cloud Storage, Azure, and directories. Credentials come from
//! the environment, as the crate `object_store` reads them, and appear in no message.
#![expect(
    clippy::disallowed_methods,
    reason = "what is brought here and from here are files, and credentials are in the environment"
)]

use std::{
    error::Error as _,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::{
    ClientOptions, Error, ObjectMeta, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutMode, PutOptions, PutPayload,
    RetryConfig, UpdateVersion, aws::AmazonS3Builder, azure::MicrosoftAzureBuilder, gcp::GoogleCloudStorageBuilder,
    local::LocalFileSystem, path::Path as Key,
};
use reqwest::Url;
use tokio::runtime::Runtime;

use crate::diagnostic::visible;

/// Maximum size of an object that is read or written, in bytes.
const MOST_BYTES: u64 = 2 << 30;
/// Maximum number of bytes read from one URL.
const MOST_IN_ALL: u64 = 16 << 30;
/// Maximum number of objects read from one URL.
const MOST_OBJECTS: usize = 1_000_000;
/// Number of concurrent requests.
const AT_ONCE: usize = 16;
/// Number of concurrent uploads: each file is held in memory.
const UPLOADS: usize = 4;
/// How often a failed request is repeated, and for how long.
const RETRIES: usize = 3;
const RETRY: Duration = Duration::from_secs(30);
/// Timeout of a server that sends nothing.
const SILENCE: Duration = Duration::from_secs(30);
/// Variables whose values are secrets.
const SECRETS: [&str; 10] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_BEARER_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "AZURE_CLIENT_SECRET",
];
/// For each store: the prefix of its environment variables, and the most important ones, for messages.
const S3: (&str, &str) = (
    "AWS_",
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION; AWS_ENDPOINT_URL for a server other than Amazon's",
);
const GCS: (&str, &str) = ("GOOGLE_", "GOOGLE_SERVICE_ACCOUNT or GOOGLE_SERVICE_ACCOUNT_KEY");
const FOLDER: (&str, &str) = ("", "");
const AZURE: (&str, &str) = ("AZURE_", "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY");

/// Why an operation of a store failed.
#[derive(Clone, PartialEq, Debug)]
pub enum Trouble {
    /// The request was wrong.
    Wrong(String),
    /// The store cannot be reached, or refuses access.
    Broken(String),
}

/// A location in a store: an object, or everything below it.
#[derive(Debug)]
pub struct Store {
    runtime: Runtime,
    objects: Arc<dyn ObjectStore>,
    at: Key,
    /// As given.
    url: String,
    /// Whether the URL ends in a slash.
    is_folder: bool,
    /// The prefix of its environment variables, and the most important ones.
    variables: (&'static str, &'static str),
}

/// What a URL contained.
#[derive(Debug)]
pub enum Fetched {
    /// One object.
    One(PathBuf),
    /// The requested objects below it, by URL.
    Below(Vec<(String, PathBuf)>),
}

/// The result of uploading a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    New,
    /// An object with other content was replaced.
    Replaced,
    /// The object already had the same content.
    Same,
    /// An object with other content exists and was kept.
    Other,
}

impl Store {
    /// Opens a URL `s3://BUCKET/PATH`, `gs://`, `az://CONTAINER/PATH`, `abfss://` or `file:///PATH`. Sends no request
    /// yet.
    ///
    /// # Errors
    /// The URL has another form, or the settings of the store in the environment cannot be used.
    pub fn open(url: &str) -> Result<Self, Trouble> {
        let wrong = |why: String| Trouble::Wrong(format!("`{}` {why}", visible(&harmless(url))));
        let parsed = Url::parse(url).map_err(|error| wrong(format!("is not a URL: {error}")))?;
        if parsed.password().is_some() || parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(wrong("contains more than a path: credentials are read from the environment".to_owned()));
        }
        let is_store = matches!(parsed.scheme(), "s3" | "s3a" | "gs" | "az" | "abfs" | "abfss" | "file");
        let found = ObjectStoreScheme::parse(&parsed).ok().filter(|_| is_store);
        let Some((scheme, at)) = found else {
            let schemes = "s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH or file:///PATH";
            return Err(wrong(format!("is not in a supported store: write {schemes}")));
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        macro_rules! built {
            ($builder:ty, $variables:expr) => {{
                let client = ClientOptions::new().with_timeout_disabled().with_read_timeout(SILENCE);
                let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY, ..RetryConfig::default() };
                let mut builder = <$builder>::new().with_client_options(client).with_retry(retry);
                for (name, value) in variables($variables.0) {
                    if let Ok(key) = name.to_ascii_lowercase().parse() {
                        builder = builder.with_config(key, value);
                    }
                }
                let built = builder.with_url(url).build().map(|store| Arc::new(store) as Arc<dyn ObjectStore>);
                built.map_err(|error| {
                    wrong(format!("cannot be used: {}; the environment must contain {}", why(&error), $variables.1))
                })
            }};
        }
        let (objects, variables) = match scheme {
            ObjectStoreScheme::AmazonS3 => (built!(AmazonS3Builder, S3)?, S3),
            ObjectStoreScheme::GoogleCloudStorage => (built!(GoogleCloudStorageBuilder, GCS)?, GCS),
            ObjectStoreScheme::MicrosoftAzure => (built!(MicrosoftAzureBuilder, AZURE)?, AZURE),
            _ => (Arc::new(LocalFileSystem::new()) as Arc<dyn ObjectStore>, FOLDER),
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Trouble::Broken(format!("cannot start: {error}")))?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self { runtime, objects, at, is_folder: parsed.path().ends_with('/'), url, variables })
    }

    /// Downloads the object that the URL names into a directory, or all objects below the URL whose names are wanted.
    /// Hidden directories are skipped.
    ///
    /// # Errors
    /// There is nothing, there is too much, or the store cannot be read.
    pub fn fetch(&self, wanted: &dyn Fn(&str) -> bool, into: &Path) -> Result<Fetched, Trouble> {
        self.runtime.block_on(async {
            if !self.is_folder && !self.at.as_ref().is_empty() {
                match self.objects.head(&self.at).await {
                    Ok(meta) => {
                        let to = into.join("0");
                        self.download(&meta, &self.url, &to).await?;
                        return Ok(Fetched::One(to));
                    }
                    Err(Error::NotFound { .. }) => {}
                    Err(error) => return Err(self.trouble(&error)),
                }
            }
            let found = self.below(wanted).await?;
            let fetched = found.into_iter().enumerate().map(|(nth, (name, meta))| async move {
                let (url, to) = (format!("{}/{name}", self.url), into.join(format!("{nth}.json")));
                self.download(&meta, &url, &to).await?;
                Ok::<_, Trouble>((url, to))
            });
            stream::iter(fetched).buffered(AT_ONCE).try_collect().await.map(Fetched::Below)
        })
    }

    /// Returns the wanted objects below the URL, by relative path, sorted by it.
    async fn below(&self, wanted: &dyn Fn(&str) -> bool) -> Result<Vec<(String, ObjectMeta)>, Trouble> {
        let (mut found, mut bytes, mut any) = (Vec::new(), 0_u64, false);
        let mut all = self.objects.list(Some(&self.at));
        while let Some(meta) = all.next().await {
            let meta = meta.map_err(|error| self.trouble(&error))?;
            any = true;
            let Some(parts) = meta.location.prefix_match(&self.at) else { continue };
            let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
            let is_hidden = parts.iter().any(|part| part.starts_with('.'));
            if is_hidden || !parts.last().is_some_and(|name| wanted(name)) {
                continue;
            }
            bytes = bytes.saturating_add(meta.size);
            if found.len() >= MOST_OBJECTS || bytes > MOST_IN_ALL {
                let most = MOST_IN_ALL >> 20;
                let why = format!("`{}` has more than {MOST_OBJECTS} results files, or {most} MiB of them", self.url);
                return Err(Trouble::Wrong(why));
            }
            found.push((parts.join("/"), meta));
        }
        if !any {
            return Err(self.nothing());
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    async fn download(&self, meta: &ObjectMeta, url: &str, to: &Path) -> Result<(), Trouble> {
        if meta.size > MOST_BYTES {
            return Err(Trouble::Wrong(format!("`{url}` has more than {} MiB", MOST_BYTES >> 20)));
        }
        let unwritten = |error: std::io::Error| Trouble::Broken(format!("cannot write `{}`: {error}", to.display()));
        let found = self.objects.get(&meta.location).await.map_err(|error| self.trouble(&error))?;
        let mut chunks = found.into_stream();
        let mut out = fs::File::create(to).map_err(unwritten)?;
        let mut left = MOST_BYTES;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| self.trouble(&error))?;
            left = left.checked_sub(chunk.len() as u64).ok_or_else(|| self.nothing())?;
            out.write_all(&chunk).map_err(unwritten)?;
        }
        Ok(())
    }

    /// Uploads files, each to its path below the URL. If the store supports it, a file is written only if the existing
    /// object has not changed since it was read.
    ///
    /// # Errors
    /// A file cannot be read, or the store cannot be written.
    pub fn push(&self, files: &[(String, PathBuf)], replace: bool) -> Result<Vec<Pushed>, Trouble> {
        let each = files.iter().map(|(name, path)| self.put(name, path, replace));
        self.runtime.block_on(stream::iter(each).buffered(UPLOADS).try_collect())
    }

    async fn put(&self, name: &str, path: &Path, replace: bool) -> Result<Pushed, Trouble> {
        let unread = |why: String| Trouble::Wrong(format!("cannot read `{}`: {why}", path.display()));
        let size = fs::metadata(path).map_err(|error| unread(error.to_string()))?.len();
        if size > MOST_BYTES {
            return Err(unread(format!("it has more than {} MiB", MOST_BYTES >> 20)));
        }
        let bytes: PutPayload = fs::read(path).map_err(|error| unread(error.to_string()))?.into();
        let at = Key::parse(format!("{}/{name}", self.at));
        let at =
            at.map_err(|error| Trouble::Wrong(format!("`{}` is not a valid name in a store: {error}", visible(name))))?;
        // Another client may write the object at the same time.
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            let (mode, done) = match self.objects.get(&at).await {
                Err(Error::NotFound { .. }) => (PutMode::Create, Pushed::New),
                Err(error) => return Err(self.trouble(&error)),
                Ok(there) => {
                    let version =
                        UpdateVersion { e_tag: there.meta.e_tag.clone(), version: there.meta.version.clone() };
                    let same = there.meta.size == bytes.content_length() as u64 && {
                        let there = there.bytes().await.map_err(|error| self.trouble(&error))?;
                        there.iter().eq(bytes.iter().flat_map(|part| part.iter()))
                    };
                    match (same, replace) {
                        (true, _) => return Ok(Pushed::Same),
                        (false, false) => return Ok(Pushed::Other),
                        (false, true) => (PutMode::Update(version), Pushed::Replaced),
                    }
                }
            };
            let put = |mode: PutMode| {
                let options = PutOptions { mode, ..PutOptions::default() };
                self.objects.put_opts(&at, bytes.clone(), options)
            };
            let written = match put(mode).await {
                Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => put(PutMode::Overwrite).await,
                written => written,
            };
            match written {
                Ok(_) => return Ok(done),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
                Err(error) => return Err(self.trouble(&error)),
            }
        }
        Err(Trouble::Broken(format!("`{}/{name}` is repeatedly written by somebody else", self.url)))
    }

    fn nothing(&self) -> Trouble {
        Trouble::Wrong(format!("there is nothing at `{}`", self.url))
    }

    fn trouble(&self, error: &Error) -> Trouble {
        let (url, why, (prefix, variables)) = (&self.url, why(error), self.variables);
        if ["NoSuchBucket", "ContainerNotFound"].iter().any(|code| why.contains(code)) {
            return Trouble::Wrong(format!("no such bucket or container: `{url}`"));
        }
        if why.contains("URL scheme is not allowed") {
            return Trouble::Wrong(format!("the server of `{url}` has no TLS, which `{prefix}ALLOW_HTTP=true` allows"));
        }
        let from = if variables.is_empty() {
            String::new()
        } else {
            format!("; access uses these environment variables: {variables}")
        };
        match error {
            Error::NotFound { .. } => self.nothing(),
            Error::Unauthenticated { .. } | Error::PermissionDenied { .. } => {
                Trouble::Broken(format!("access to `{url}` was denied: {why}{from}"))
            }
            _ => Trouble::Broken(format!("cannot reach `{url}`: {why}{from}")),
        }
    }
}

/// Returns the variables of the environment with this prefix and a value: CI sets unknown variables to the empty
/// string.
fn variables(prefix: &str) -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty())
}

/// Returns why something failed, in one line: the innermost reason, or the message of the server.
fn why(error: &Error) -> String {
    const MOST: usize = 300;
    let mut source = error.source();
    let mut text = error.to_string();
    while let Some(inner) = source {
        text = inner.to_string();
        source = inner.source();
    }
    let tag = |name: &str| Some(text.split_once(&format!("<{name}>"))?.1.split_once("</")?.0.to_owned());
    let said = match (tag("Code"), tag("Message")) {
        (Some(code), Some(message)) if !message.is_empty() => format!("{message} ({code})"),
        (Some(code), _) => code,
        _ => text,
    };
    let line: String = harmless(&said).split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MOST).collect();
    visible(line.trim_end_matches(':')).into_owned()
}

/// Removes secrets: those of the environment, the queries of URLs, and the user names in URLs.
fn harmless(text: &str) -> String {
    let secrets = SECRETS.iter().filter_map(|name| std::env::var(name).ok()).filter(|value| value.len() > 3);
    let mut text = secrets.fold(text.to_owned(), |text, secret| text.replace(&secret, "***"));
    let mut from = 0;
    while let Some(at) = text[from..].find("://").map(|at| from + at + 3) {
        let end =
            text[at..].find(|c: char| c.is_whitespace() || ")\"'`>".contains(c)).map_or(text.len(), |end| at + end);
        let mut url = text[at..end].to_owned();
        if let Some(query) = url.find('?') {
            url.truncate(query);
        }
        let host = url.find('/').unwrap_or(url.len());
        // The container in `CONTAINER@ACCOUNT` is not a user.
        if let Some(user) = url[..host].rfind('@').filter(|user| url[..*user].contains(':')) {
            url.replace_range(..user, "***");
        }
        text.replace_range(at..end, &url);
        from = at;
    }
    text
}
