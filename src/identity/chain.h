/*-------------------------------------------------------------------------
 *
 * chain.h
 *	  The credential chain of the AWS SDKs: which source is to be asked.
 *
 * A plan names one source and the roles to be assumed on top of it.  Making it
 * needs the environment and the shared files and no network; server/fetch.c carries
 * it out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef EO_IDENTITY_CHAIN_H
#define EO_IDENTITY_CHAIN_H

#include "identity/identity.h"
#include "identity/ini.h"
#include "wire/endpoint.h"
#include "wire/status.h"

/* The variables of the environment that count; their names are in chain.c. */
typedef enum EoChainVariable
{
	EO_VAR_ACCESS_KEY_ID,
	EO_VAR_SECRET_ACCESS_KEY,
	EO_VAR_SESSION_TOKEN,
	EO_VAR_PROFILE,
	EO_VAR_REGION,
	EO_VAR_CREDENTIALS_FILE,
	EO_VAR_CONFIG_FILE,
	EO_VAR_HOME,
	EO_VAR_WEB_TOKEN_FILE,
	EO_VAR_ROLE_ARN,
	EO_VAR_ROLE_SESSION_NAME,
	EO_VAR_CONTAINER_RELATIVE,
	EO_VAR_CONTAINER_FULL,
	EO_VAR_CONTAINER_TOKEN,
	EO_VAR_CONTAINER_TOKEN_FILE,
	EO_VAR_METADATA_DISABLED,
	EO_VAR_METADATA_ENDPOINT,
	EO_VAR_METADATA_MODE,
	EO_VAR_STS_ENDPOINT,
	EO_VAR_COUNT
} EoChainVariable;

/* NULL: the variable is not set, or empty. */
typedef struct EoChainEnvironment
{
	const char *value[EO_VAR_COUNT];
} EoChainEnvironment;

/* Limits of IAM and STS, of paths, and of what a profile may ask for. */
#define EO_MAX_ARN 2048
#define EO_MAX_EXTERNAL_ID 1224
#define EO_MAX_SESSION_NAME 64
#define EO_MAX_PROFILE 128
#define EO_MAX_CHAIN_URL 1023
#define EO_MAX_CHAIN_ROLES 6
#define EO_CHAIN_WHY_LEN 512

typedef struct EoChainRole
{
	char		arn[EO_MAX_ARN + 1];
	char		external_id[EO_MAX_EXTERNAL_ID + 1];	/* "": none */
	char		session_name[EO_MAX_SESSION_NAME + 1];
	int			duration_s;		/* 0: as STS has it */
} EoChainRole;

/*
 * The options of a server that say whose credentials it uses, or which region.  Wishes
 * are compared with memcmp(), so padding must be zero.
 */
typedef struct EoChainWish
{
	bool		environment_only;	/* not the whole chain */
	bool		region_only;	/* no credentials: the region of the machine */
	bool		fips;			/* of STS, as the next two */
	bool		dualstack;
	char		region[EO_MAX_REGION + 1];
	char		profile[EO_MAX_PROFILE + 1];	/* "": not named */
	char		ca_file[EO_MAX_CHAIN_URL + 1];	/* "": the system's
												 * authorities */
	EoChainRole role;			/* arn "": none */
} EoChainWish;

typedef enum EoChainBase
{
	EO_BASE_NONE,
	EO_BASE_STATIC,				/* identity has it */
	EO_BASE_WEB_IDENTITY,		/* web_role, by the token in token_file */
	EO_BASE_CONTAINER,			/* url, with the token in token_file or token */
	EO_BASE_METADATA,			/* url, without a path */
	EO_BASE_REGION				/* region has it */
} EoChainBase;

/* To be kept in memory of secret.h. */
typedef struct EoChainPlan
{
	EoChainBase base;
	char		source[64 + EO_MAX_PROFILE];	/* such as: environment */
	char		why[EO_CHAIN_WHY_LEN];	/* why the sources before it do not
										 * answer */
	char		failure[EO_CHAIN_WHY_LEN];	/* why this one cannot be used */
	char		region[EO_MAX_REGION + 1];
	EoIdentity	identity;
	char		url[EO_MAX_CHAIN_URL + 1];
	char		token_file[EO_MAX_CHAIN_URL + 1];
	char		token[EO_MAX_SESSION_TOKEN + 1];
	EoChainRole web_role;
	int			nroles;
	EoChainRole roles[EO_MAX_CHAIN_ROLES];	/* in this order */
} EoChainPlan;

/* The name of a variable, such as AWS_PROFILE. */
extern const char *eo_chain_variable_name(EoChainVariable variable);

/*
 * Make the plan.  The files are those that the environment names.  EO_NO_CREDENTIALS:
 * no source is set up.  EO_INVALID: a source is, but cannot be used; the chain ends
 * there, because the next source would be somebody else.
 *
 * If the wish is region_only, the plan is for the region of the environment, of the profile, or
 * of the instance: the base is EO_BASE_REGION or EO_BASE_METADATA.
 */
extern EoStatus eo_chain_plan(const EoChainEnvironment *env, EoIniFile credentials,
							  EoIniFile config, const EoChainWish *wish,
							  EoChainPlan *plan) EO_MUST_CHECK;

#endif							/* EO_IDENTITY_CHAIN_H */
