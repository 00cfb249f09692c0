package testenv

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// scram logs in by SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding.
// The server's own proof is not checked: it guards a test database.
func (c *pgConn) scram(password, mechanisms string) error {
	const mechanism = "SCRAM-SHA-256"
	if !strings.Contains(mechanisms, mechanism+"\x00") {
		return fmt.Errorf("postgres offers %q, want %s", mechanisms, mechanism)
	}
	first := "n=,r=" + rand.Text()
	size := binary.BigEndian.AppendUint32(nil, uint32(len("n,,"+first)))
	if err := c.send('p', mechanism+"\x00"+string(size)+"n,,"+first); err != nil {
		return err
	}
	challenge, err := c.saslMessage()
	if err != nil {
		return err
	}
	answer, err := scramAnswer(password, first, challenge)
	if err != nil {
		return err
	}
	return c.send('p', answer) // the final R messages are read by the caller
}

func (c *pgConn) saslMessage() (string, error) {
	kind, body, err := c.read()
	if err != nil {
		return "", err
	}
	if kind == 'E' {
		return "", pgError(body)
	}
	if kind != 'R' || len(body) < 4 {
		return "", fmt.Errorf("postgres: message %q while logging in", kind)
	}
	return string(body[4:]), nil
}

// scramAnswer computes the client's final message.
func scramAnswer(password, first, challenge string) (string, error) {
	nonce, salt, rounds, err := scramChallenge(challenge)
	if err != nil {
		return "", err
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return "", err
	}
	key := keyed(salted, "Client Key")
	stored := sha256.Sum256(key)
	final := "c=biws,r=" + nonce
	signature := keyed(stored[:], first+","+challenge+","+final)
	proof := make([]byte, sha256.Size)
	subtle.XORBytes(proof, key, signature)
	return final + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

func scramChallenge(text string) (nonce string, salt []byte, rounds int, err error) {
	parts := strings.SplitN(text, ",", 3)
	if len(parts) != 3 || parts[0][:2] != "r=" || parts[1][:2] != "s=" || parts[2][:2] != "i=" {
		return "", nil, 0, errors.New("postgres: not a SCRAM challenge")
	}
	if salt, err = base64.StdEncoding.DecodeString(parts[1][2:]); err != nil {
		return "", nil, 0, err
	}
	rounds, err = strconv.Atoi(parts[2][2:])
	return parts[0][2:], salt, rounds, err
}

func keyed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
