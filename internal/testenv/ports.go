package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
)

// Ports for servers lie below the range from which Linux takes the ports of
// outgoing connections (32768 and up), so that no client can take one between
// two starts of a server. The bus of a Redis Cluster node is 10000 above.
const (
	firstPort = 12000
	lastPort  = 21999
	busOffset = 10000
)

var (
	portMu   sync.Mutex
	nextPort = firstPort + os.Getpid()%(lastPort-firstPort)
)

// Port is a port of 127.0.0.1 that no other test binary gets before Release or
// the end of this process.
type Port struct {
	Number int
	hold   net.Listener
}

// NewPort reserves a port on which nothing listens, nor on the port 10000
// above it.
func NewPort() (*Port, error) {
	portMu.Lock()
	defer portMu.Unlock()
	for range lastPort - firstPort {
		nextPort++
		if nextPort > lastPort {
			nextPort = firstPort
		}
		hold, err := reserve(nextPort)
		if err != nil {
			continue
		}
		if free(nextPort) && free(nextPort+busOffset) {
			return &Port{Number: nextPort, hold: hold}, nil
		}
		closeIf(hold)
	}
	return nil, errors.New("no free port on 127.0.0.1")
}

// Addr is the port with its host, as net.Dial takes it.
func (p *Port) Addr() string { return fmt.Sprintf("127.0.0.1:%d", p.Number) }

// Release gives the port back.
func (p *Port) Release() { closeIf(p.hold) }

func closeIf(l net.Listener) {
	if l != nil {
		_ = l.Close()
	}
}

func free(port int) bool {
	l, err := listen(fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

func listen(addr string) (net.Listener, error) {
	var c net.ListenConfig
	return c.Listen(context.Background(), "tcp", addr)
}
