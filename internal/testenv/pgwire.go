package testenv

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"
)

// pgConn speaks just enough of the Postgres protocol, version 3.0, to send a
// statement and read rows as text. Tests use a real driver; this one makes
// their databases, so that this package needs none.
type pgConn struct {
	net.Conn
	r *bufio.Reader
}

// pgExec runs statements over a connection of its own and returns the rows of
// the last one that has any, NULL as "".
func pgExec(u *url.URL, sql string) ([][]string, error) {
	c, err := pgDial(u)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if err := c.send('Q', sql+"\x00"); err != nil {
		return nil, err
	}
	var rows [][]string
	err = c.until('Z', func(kind byte, body []byte) error {
		switch kind {
		case 'T':
			rows = nil
		case 'D':
			rows = append(rows, pgRow(body))
		}
		return nil
	})
	return rows, err
}

// pgDial connects and authenticates.
func pgDial(u *url.URL) (*pgConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), doWithin)
	defer cancel()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	c := &pgConn{Conn: raw, r: bufio.NewReader(raw)}
	if err := c.startup(u); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return c, nil
}

func (c *pgConn) startup(u *url.URL) error {
	if err := c.SetDeadline(time.Now().Add(3 * doWithin)); err != nil { // CREATE DATABASE copies files
		return err
	}
	const version = "\x00\x03\x00\x00"
	params := version + "user\x00" + u.User.Username() + "\x00database\x00" + strings.TrimPrefix(u.Path, "/") + "\x00\x00"
	if err := c.sendRaw(nil, params); err != nil {
		return err
	}
	return c.until('Z', func(kind byte, body []byte) error {
		if kind == 'R' {
			return c.authenticate(u, body)
		}
		return nil
	})
}

// authenticate answers the request for authentication in an R message.
func (c *pgConn) authenticate(u *url.URL, body []byte) error {
	const ok, cleartext, sasl, saslFinal = 0, 3, 10, 12
	password, _ := u.User.Password()
	switch method := binary.BigEndian.Uint32(body); method {
	case ok, saslFinal:
		return nil
	case cleartext:
		return c.send('p', password+"\x00")
	case sasl:
		return c.scram(password, string(body[4:]))
	default:
		return fmt.Errorf("postgres asks for authentication method %d; use trust, password or scram-sha-256", method)
	}
}

// until reads messages up to one of a kind. An error of the server is returned,
// once its answer is complete.
func (c *pgConn) until(last byte, each func(kind byte, body []byte) error) error {
	var failed error
	for {
		kind, body, err := c.read()
		if err != nil {
			return errors.Join(failed, err)
		}
		if kind == 'E' {
			failed = pgError(body)
			continue // the server closes, or says that it is ready
		}
		if kind == last {
			return failed
		}
		if err := each(kind, body); err != nil {
			return err
		}
	}
}

func (c *pgConn) read() (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size < 4 || size > 64<<20 {
		return 0, nil, fmt.Errorf("postgres: a message of %d bytes", size)
	}
	body = make([]byte, size-4)
	_, err = io.ReadFull(c.r, body)
	return head[0], body, err
}

func (c *pgConn) send(kind byte, body string) error { return c.sendRaw([]byte{kind}, body) }

func (c *pgConn) sendRaw(kind []byte, body string) error {
	b := binary.BigEndian.AppendUint32(kind, uint32(len(body)+4))
	_, err := c.Write(append(b, body...))
	return err
}

// pgRow splits a D message: a count, then length and bytes of each column.
func pgRow(body []byte) []string {
	row := make([]string, binary.BigEndian.Uint16(body))
	body = body[2:]
	for i := range row {
		n := int32(binary.BigEndian.Uint32(body))
		body = body[4:]
		if n >= 0 {
			row[i], body = string(body[:n]), body[n:]
		}
	}
	return row
}

// pgError picks severity, code and message out of an E message.
func pgError(body []byte) error {
	var severity, code, message string
	for field := range bytes.SplitSeq(body, []byte{0}) {
		if len(field) < 2 {
			continue
		}
		switch text := string(field[1:]); field[0] {
		case 'S':
			severity = text
		case 'C':
			code = text
		case 'M':
			message = text
		}
	}
	return fmt.Errorf("%s: %s (SQLSTATE %s)", severity, message, code)
}
