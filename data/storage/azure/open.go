package azure

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/quire/quire/data/storage/object"
)

// service describes the address of an account.
type service struct {
	account  string
	domain   string // blob.core.windows.net if ""
	protocol string // https if ""
	cdn      bool   // domain is a CDN's for the account
	emulator bool   // its URLs have the account in the path, like URLs of local domains
}

// credentials are the credentials in the environment.
type credentials struct{ key, sas, connection string }

// Open returns a container. The environment has the account and the credentials: AZURE_STORAGE_ACCOUNT with
// AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_CONNECTION_STRING (or
// AZURE_STORAGEBLOB_CONNECTIONSTRING), or else Azure's default credentials, in this order. AZURE_STORAGE_DOMAIN,
// AZURE_STORAGE_PROTOCOL, AZURE_STORAGE_IS_CDN and AZURE_STORAGE_IS_LOCAL_EMULATOR, or the parameters
// storage_account, domain, protocol, cdn and localemu, define its address.
func Open(name string, p *object.Parameters) (object.Bucket, error) {
	where, who := fromEnvironment()
	environmentAddress, environmentErr := where.address()
	account := where.account
	override := func(value *string, parameter string) {
		if text := p.String(parameter); text != "" {
			*value = text
		}
	}
	override(&where.account, "storage_account")
	override(&where.domain, "domain")
	override(&where.protocol, "protocol")
	overrideBool := func(value *bool, parameter string) {
		if given := p.Bool(parameter); p.String(parameter) != "" {
			*value = given
		}
	}
	overrideBool(&where.cdn, "cdn")
	overrideBool(&where.emulator, "localemu")
	if err := p.Err(); err != nil {
		return nil, err
	}
	address, err := where.address()
	if err != nil {
		return nil, err
	}
	if who.sas != "" {
		// Each request contains the token, so a URL must not send it to a different server.
		if environmentErr != nil {
			return nil, environmentErr
		}
		if address.Scheme != environmentAddress.Scheme || !strings.EqualFold(address.Host, environmentAddress.Host) {
			return nil, errors.New("the URL's parameters name a different server from the environment, which has " +
				"AZURE_STORAGE_SAS_TOKEN; set AZURE_STORAGE_DOMAIN instead")
		}
		address.RawQuery = strings.TrimPrefix(who.sas, "?")
	}
	client, err := who.client(account, address.JoinPath(name).String(), name)
	if err != nil {
		return nil, err
	}
	return &bucket{client}, nil
}

// fromEnvironment reads the environment. A connection string also names an account.
func fromEnvironment() (service, credentials) {
	s := service{account: os.Getenv("AZURE_STORAGE_ACCOUNT"), domain: os.Getenv("AZURE_STORAGE_DOMAIN"),
		protocol: os.Getenv("AZURE_STORAGE_PROTOCOL")}
	s.cdn, _ = strconv.ParseBool(os.Getenv("AZURE_STORAGE_IS_CDN"))
	s.emulator, _ = strconv.ParseBool(os.Getenv("AZURE_STORAGE_IS_LOCAL_EMULATOR"))
	c := credentials{key: os.Getenv("AZURE_STORAGE_KEY"), sas: os.Getenv("AZURE_STORAGE_SAS_TOKEN"),
		connection: os.Getenv("AZURE_STORAGE_CONNECTION_STRING")}
	if c.connection == "" {
		c.connection = os.Getenv("AZURE_STORAGEBLOB_CONNECTIONSTRING")
	}
	if s.account == "" {
		c.key = ""
	}
	for pair := range strings.SplitSeq(c.connection, ";") {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case name == "AccountName" && s.account == "":
			s.account = value
		case name == "DefaultEndpointsProtocol" && s.protocol == "":
			s.protocol = value
		}
	}
	return s, c
}

// address returns the URL of the account.
func (s service) address() (*url.URL, error) {
	if s.account == "" {
		return nil, errors.New("the storage account is unknown; set AZURE_STORAGE_ACCOUNT, or add " +
			"?storage_account=NAME to the URL")
	}
	u := &url.URL{Scheme: s.protocol, Host: s.domain}
	if u.Scheme == "" {
		u.Scheme = "https"
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the protocol of Azure Blob Storage is %q, but must be http or https", s.protocol)
	}
	if u.Host == "" {
		u.Host = "blob.core.windows.net"
	}
	switch {
	case s.emulator || strings.HasPrefix(u.Host, "127.0.0.1") || strings.HasPrefix(u.Host, "localhost"):
		u.Path = "/" + s.account
	case !s.cdn:
		u.Host = s.account + "." + u.Host
	}
	return u, nil
}

// client returns a container's client at an address. account is the account that the key belongs to.
func (c credentials) client(account, address, name string) (*container.Client, error) {
	switch {
	case c.key != "":
		key, err := container.NewSharedKeyCredential(account, c.key)
		if err != nil {
			return nil, fmt.Errorf("AZURE_STORAGE_KEY is not a key: %w", err)
		}
		return container.NewClientWithSharedKeyCredential(address, key, nil)
	case c.sas != "":
		return container.NewClientWithNoCredential(address, nil)
	case c.connection != "":
		return container.NewClientFromConnectionString(c.connection, name, nil)
	}
	token, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return container.NewClient(address, token, nil)
}
