CREATE TABLE account (
  id      bigint PRIMARY KEY,
  balance bigint NOT NULL
);

CREATE TABLE entry (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account bigint NOT NULL REFERENCES account,
  amount  bigint NOT NULL
);
