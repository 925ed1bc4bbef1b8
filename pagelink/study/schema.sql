-- One study in one file: what is asked is written once by `create`, what people say is added to it.
-- A file has just these statements, comments included: any change of one is a new version.

CREATE TABLE seal (digest TEXT NOT NULL);  -- sha256 of what is asked, see integrity.py

CREATE TABLE about (value TEXT NOT NULL);  -- one row of JSON, see StudyAbout

CREATE TABLE drawing (
    id INTEGER PRIMARY KEY,
    svg TEXT NOT NULL,
    sentences TEXT NOT NULL,  -- JSON list
    narrow TEXT NOT NULL  -- the drawing for narrow windows
);

CREATE TABLE question (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('best', 'forecast')),
    subject INTEGER NOT NULL,  -- the predicted link: nobody is asked about one twice
    asked TEXT NOT NULL,
    link TEXT NOT NULL,
    score TEXT NOT NULL,
    fact TEXT,
    truth TEXT CHECK (truth IN ('rise', 'fall', 'stay')),
    change REAL,  -- of the logit, without the fact
    CHECK ((kind = 'forecast') = (truth IS NOT NULL))
);

-- best: what can be chosen; forecast: what may be shown beside the question, or nothing.
CREATE TABLE option (
    question INTEGER NOT NULL REFERENCES question,
    number INTEGER NOT NULL,
    explainers TEXT NOT NULL,  -- JSON list; empty: no explanation is shown
    drawing INTEGER REFERENCES drawing,
    PRIMARY KEY (question, number)
);

-- What people say is there twice, so that a changed byte is found: see integrity.py.

CREATE TABLE participant (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    joined REAL NOT NULL,
    level TEXT,
    line TEXT,
    id_copy INTEGER AS (id) STORED, key_copy TEXT AS (key) STORED,
    joined_copy REAL AS (joined) STORED, level_copy TEXT AS (level) STORED,
    line_copy TEXT AS (line) STORED
);

CREATE TABLE assignment (
    participant INTEGER NOT NULL REFERENCES participant,
    question INTEGER NOT NULL REFERENCES question,
    number INTEGER NOT NULL,  -- it is this person's n-th
    shown TEXT NOT NULL,      -- JSON list: the options in the order shown
    first_seen REAL NOT NULL,
    last_seen REAL NOT NULL,
    participant_copy INTEGER AS (participant) STORED, question_copy INTEGER AS (question) STORED,
    number_copy INTEGER AS (number) STORED, shown_copy TEXT AS (shown) STORED,
    first_seen_copy REAL AS (first_seen) STORED, last_seen_copy REAL AS (last_seen) STORED,
    PRIMARY KEY (participant, question),
    UNIQUE (participant, number)
);

CREATE TABLE answer (
    participant INTEGER NOT NULL,
    question INTEGER NOT NULL,
    choice TEXT NOT NULL,
    given REAL NOT NULL,
    participant_copy INTEGER AS (participant) STORED, question_copy INTEGER AS (question) STORED,
    choice_copy TEXT AS (choice) STORED, given_copy REAL AS (given) STORED,
    PRIMARY KEY (participant, question),
    FOREIGN KEY (participant, question) REFERENCES assignment
);
CREATE INDEX answer_by_question ON answer (question);
