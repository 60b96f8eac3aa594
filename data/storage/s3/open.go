package s3

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"

	"github.com/quire/quire/data/storage/object"
)

// Open returns a bucket. It takes missing parameters from the environment and the files that all AWS tools use:
//
//	region, profile, anonymous      profile is one of ~/.aws/config
//	role                            the ARN of a role to assume
//	endpoint                        the URL of another server; without a region, us-east-1 is signed for
//	use_path_style                  the bucket's name in the path; s3ForcePathStyle is the same
//	hostname_immutable              the same, with an endpoint
//	disable_https, dualstack, fips, accelerate
//	ssetype, kmskeyid               how the server encrypts what is written
//	rate_limiter_capacity           how many tries again the client has in reserve
//	request_checksum_calculation, response_checksum_validation
//	                                when_supported or when_required
func Open(ctx context.Context, name string, p *object.Parameters) (object.Bucket, error) {
	b := &bucket{name: name, encryption: p.Choice("ssetype", names(types.ServerSideEncryption("").Values())...),
		key: p.String("kmskeyid")}
	endpoint := p.String("endpoint")
	noHTTPS, accelerate, immutable := p.Bool("disable_https"), p.Bool("accelerate"), p.Bool("hostname_immutable")
	pathStyle, oldPathStyle := p.Bool("use_path_style"), p.Bool("s3ForcePathStyle")
	p.String("awssdk") // selects the client's version in URLs of Go CDK
	settings, err := configure(ctx, p)
	if err != nil {
		return nil, err
	}
	b.client = s3.NewFromConfig(settings, func(o *s3.Options) {
		o.EndpointOptions.DisableHTTPS, o.UseAccelerate = noHTTPS, accelerate
		o.Logger = logging.Nop{} // it would log each body that breaks off
		o.UsePathStyle = pathStyle || oldPathStyle || immutable && endpoint != ""
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
			if o.Region == "" {
				o.Region = "us-east-1"
			}
		}
	})
	b.uploader = transfermanager.New(b.client, func(o *transfermanager.Options) {
		o.PartSizeBytes, o.Concurrency = object.PartSize, object.PartsAtOnce
		// The uploader ignores the client's setting.
		o.RequestChecksumCalculation = settings.RequestChecksumCalculation
	})
	return b, nil
}

// configure reads the parameters that are not specific to S3.
func configure(ctx context.Context, p *object.Parameters) (aws.Config, error) {
	var options []func(*config.LoadOptions) error
	set := func(given bool, option func(*config.LoadOptions) error) {
		if given {
			options = append(options, option)
		}
	}
	region, profile, role := p.String("region"), p.String("profile"), p.String("role")
	set(region != "", config.WithRegion(region))
	set(profile != "", config.WithSharedConfigProfile(profile))
	set(p.Bool("dualstack"), config.WithUseDualStackEndpoint(aws.DualStackEndpointStateEnabled))
	set(p.Bool("fips"), config.WithUseFIPSEndpoint(aws.FIPSEndpointStateEnabled))
	set(p.Bool("anonymous"), config.WithCredentialsProvider(aws.AnonymousCredentials{}))
	const supported, required = "when_supported", "when_required"
	request := p.Choice("request_checksum_calculation", supported, required)
	set(request == supported, config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenSupported))
	set(request == required, config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired))
	response := p.Choice("response_checksum_validation", supported, required)
	set(response == supported, config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenSupported))
	set(response == required, config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired))
	capacity := p.Count("rate_limiter_capacity")
	set(true, config.WithRetryer(func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.RateLimiter = ratelimit.None
			if capacity > 0 {
				o.RateLimiter = ratelimit.NewTokenRateLimit(capacity)
			}
		})
	}))
	if err := p.Err(); err != nil {
		return aws.Config{}, err
	}
	settings, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil || role == "" {
		return settings, err
	}
	if !strings.HasPrefix(role, "arn:") {
		return settings, errors.New("the URL's parameter role is not an ARN, which starts with arn:")
	}
	provider := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(settings), role)
	settings.Credentials = aws.NewCredentialsCache(provider)
	return settings, nil
}

func names[T ~string](values []T) (all []string) {
	for _, v := range values {
		all = append(all, string(v))
	}
	return all
}
